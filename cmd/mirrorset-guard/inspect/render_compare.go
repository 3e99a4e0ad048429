package inspect

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// comparisonText describes a comparison to a person.
func comparisonText(c v1alpha1.Comparison) string {
	switch c.State {
	case v1alpha1.StateApplied:
		return fmt.Sprintf("MachineConfig %s matches the objects in force: the Machine Config Operator has applied them.\n", c.Name)
	case v1alpha1.StateRejected:
		return fmt.Sprintf("The Machine Config Operator is stuck, and will stay so until the objects are repaired.\n%s\n", c.Detail)
	case v1alpha1.StateUnknown:
		return fmt.Sprintf("Whether the Machine Config Operator has applied the objects in force is not known: %s.\n", c.Detail)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MachineConfig %s does not match the objects in force:\n", c.Name)
	var differences []string
	for _, d := range c.Differences {
		differences = append(differences, fmt.Sprintf("%s\n    objects:       %s\n    MachineConfig: %s", text.Line(cli.InFile(d.File, d.Scope)), cli.OrNone(d.Objects), cli.OrNone(d.MachineConfig)))
	}
	for _, line := range text.First(differences, cli.MaxDifferences, "") {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if c.SparesPayload {
		b.WriteString("A blocked registry that holds the release image and has no mirror is left out on\npurpose; which image that is, is not known here.\n")
	}
	b.WriteString(`The Machine Config Operator is still at work, or stuck. Nodes keep what the
MachineConfig says. To find out why:
  oc -n openshift-machine-config-operator logs deploy/machine-config-controller
`)
	return b.String()
}
