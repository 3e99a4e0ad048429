package inspect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// maxDifferences is how many differences are printed: the advice below them stays on the screen.
const maxDifferences = 6

// comparisonAnswer describes a comparison to a person.
func comparisonAnswer(c v1alpha1.Comparison) *answer.Answer {
	switch c.State {
	case v1alpha1.StateApplied:
		return &answer.Answer{Headline: fmt.Sprintf("MachineConfig %s matches the objects in force: the Machine Config Operator has applied them.", c.Name)}
	case v1alpha1.StateRejected:
		return &answer.Answer{Headline: "The Machine Config Operator is stuck, and will stay so until the objects are repaired.", Lead: []answer.Line{answer.Say(c.Detail)}}
	case v1alpha1.StateUnknown:
		return &answer.Answer{Headline: fmt.Sprintf("Whether the Machine Config Operator has applied the objects in force is not known: %s.", c.Detail)}
	}
	a := &answer.Answer{Headline: fmt.Sprintf("MachineConfig %s does not match the objects in force:", c.Name)}
	const none = "(no entry)"
	var differences answer.List
	for _, d := range c.Differences[:min(len(c.Differences), maxDifferences)] {
		differences.Items = append(differences.Items, answer.Item{
			Mark: "-", Line: answer.Say(strings.TrimPrefix(d.File+": "+d.Scope, ": ")), // no file for registries.conf
			Below: answer.Indented([]string{"objects: " + cmp.Or(d.Objects, none), "MachineConfig: " + cmp.Or(d.MachineConfig, none)}),
		})
	}
	a.Add(differences)
	if more := len(c.Differences) - maxDifferences; more > 0 {
		a.Add(answer.Paragraphf("and %s more", text.Number(more)))
	}
	if c.SparesPayload {
		a.Add(answer.Paragraphf("A blocked registry that holds the release image and has no mirror is left out on purpose; which image that is, is not known here."))
	}
	a.Add(answer.Paragraph{
		answer.Say("The Machine Config Operator is still at work, or stuck. Nodes keep what the MachineConfig says. To find out why:"),
		answer.Code("oc -n openshift-machine-config-operator logs deploy/machine-config-controller"),
	})
	return a
}
