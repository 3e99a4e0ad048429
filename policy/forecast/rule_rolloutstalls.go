package forecast

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// RolloutStalls: a drain never ends, because a pod that was evicted cannot pull its image
// where it was placed, and a budget then allows no further eviction. Half of the nodes have
// the change and half do not, and no pod of that image starts on the former. A stall that
// would come about as well if every image could be pulled is for DrainBlocked.
//
// It is a denial where the new route fails, or is not known to work. A change whose new route
// works is the way out of a stall, and one whose old route fails may be just that. Where stalls may be missing in the
// simulation, each pod that a drain evicts may be the one, unless its image can be pulled or is one too many to be looked up (docs/truth.md).
func rolloutStalls(_ plan.Plan, f *Forecast) []policy.Finding {
	var findings []policy.Finding
	told := map[string]bool{}
	add := func(finding policy.Finding) {
		findings = append(findings, finding)
		told[finding.Image.Ref] = true
	}
	for _, simulated := range f.simulations() {
		for _, stall := range simulated.Stalls {
			if stall.ByImage && !told[stall.Image] {
				add(stallFinding(f, simulated, stall))
			}
		}
	}
	for _, m := range f.doubtful {
		why, remedy := f.unproved(m.of)
		if why == "" || told[m.Image.Ref] || pullAfter(m.Case) == rollout.PullUnknown && !f.isLookedUp(m) {
			continue
		}
		finding := about(m.Case, policy.Finding{
			Reason: fmt.Sprintf("the rollout may stall, as a pod could not pull it, and nothing shows that it does not: %s", why),
			Detail: append([]string{"one is " + m.by.Pod}, f.whenLater(m.of, "")...),
			Remedy: []string{byNewRoute},
		})
		finding.Remedy = append(finding.Remedy, remedy)
		add(finding)
	}
	return findings
}

func stallFinding(f *Forecast, of *simulation.Result, stall simulation.Stall) policy.Finding {
	finding := policy.Finding{
		Severity: policy.Warn, Image: policy.Image{Ref: stall.Image},
		Reason: fmt.Sprintf("the rollout may stall%s, as a pod could not pull it", f.where(stall)),
		Detail: append([]string{stall.String()}, f.whenLater(of, stall.Pool)...),
		Remedy: []string{byNewRoute},
	}
	if stall.Image == "" { // none of them alone is known to hold it up
		finding.Reason = fmt.Sprintf("the rollout may stall%s, and would not if every image could be pulled everywhere", f.where(stall))
		finding.Remedy = []string{simulate}
	}
	if a := f.pulls.worst(stall); a != nil {
		finding = about(a, finding)
	}
	if n := len(of.Stalls) - 1; n > 0 {
		finding.Detail = append(finding.Detail, text.Plural(n, "other drain stalls", "other drains stall")+" as well: "+simulate)
	}
	return finding
}

const byNewRoute = "make it pullable by its new route before nodes are drained for the change"

// about completes a finding about the image of a.
func about(a *evidence.Case, finding policy.Finding) policy.Finding {
	finding.Severity, finding.Image, finding.Moved = policy.Warn, a.Settings.SortConsumers(a.Image), a.Settled
	if a.Settled {
		finding.Reason += "; the change leaves its route as it is"
		finding.Detail = append(finding.Detail, a.Places()...)
		finding.Remedy = []string{"make it pullable there before nodes are drained for the change, or for anything else"}
	}
	if pullAfter(a) == rollout.PullUnknown {
		finding.Remedy = a.VerifyRemedy()
	}
	if isDoubtful(a) {
		finding.Severity = policy.Deny
	}
	return finding
}

// where says at which node. Where several are drained at once, it is not certain which of them
// gets the eviction that a budget has left.
func (f *Forecast) where(stall simulation.Stall) string {
	several := slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool { return p.Name == stall.Pool && p.AtOnce > 1 })
	if several {
		return " at " + stall.Node + " or at another node that is drained at the same time"
	}
	return " at " + stall.Node
}
