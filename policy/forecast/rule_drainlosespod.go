package forecast

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// DrainLosesPod: the drains of a change evict a pod whose image the change does not reroute,
// and nodes cannot pull it any more: the pod does not start again, unless it
// comes to a node that has the image. The drain does the harm, and the change causes the
// drain; the standing verification reports the lost image as well. It is a
// denial for protected images, unless no pod has ever had it. Others are often gone for good without anyone having noticed, and
// should not block the changes of others; if a rollout may stall for one, RolloutStalls denies.
func drainLosesPod(_ plan.Plan, f *Forecast) []policy.Finding {
	var findings []policy.Finding
	told := map[string]bool{} // by RolloutStalls
	for _, finding := range f.Findings {
		told[finding.Image.Ref] = true
	}
	for _, m := range f.moved {
		if pullAfter(m.Case) != rollout.PullFails || told[m.Image.Ref] {
			continue
		}
		finding := policy.Finding{
			Severity: policy.Warn, Image: m.Settings.SortConsumers(m.Image), Moved: true,
			Reason: fmt.Sprintf("a drain evicts %s of it, and nodes could not pull it again; the change leaves its route as it is", text.Count(m.by.Pods, "pod")),
			Detail: slices.Concat(m.Places(), []string{"one is " + m.by.Pod}, f.whenLater(m.of, "")),
			Remedy: []string{"make it pullable before nodes are drained for the change, or for anything else"},
		}
		if m.Protected && !f.neverStarted(m.Case) {
			finding.Severity = policy.Deny
		}
		findings = append(findings, finding)
	}
	return findings
}

// neverStarted reports whether no pod has ever had the image of a, and those that drains evict wait for it in vain as it is. Pods that
// are about to start, and those that could not be read, are no evidence of that.
func (f *Forecast) neverStarted(a *evidence.Case) bool {
	consumers := slices.DeleteFunc(slices.Clone(a.Image.Consumers), func(c policy.Consumer) bool { return c.Kind != "Pod" })
	return len(consumers) > 0 && !slices.ContainsFunc(consumers, func(c policy.Consumer) bool { return !c.NeverRan }) &&
		!slices.ContainsFunc(f.doubtful, func(m movedImage) bool { return m.Image.Ref == a.Image.Ref && m.by.Waiting < m.by.Pods }) && !slices.Contains(f.Unknown, pods)
}
