package forecast

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
// simulation, each pod that a drain evicts may be the one, if its image is known to be lost.
func rolloutStalls(p plan.Plan, f *Forecast) []policy.Finding {
	var findings []policy.Finding
	told := map[string]bool{}
	add := func(finding policy.Finding) {
		findings = append(findings, finding)
		told[finding.Image.Ref] = true
	}
	for _, simulated := range f.simulations() {
		for _, stall := range simulated.Stalls {
			if stall.ByImage && !told[stall.Image] {
				add(stallFinding(p, f, simulated, stall))
			}
		}
	}
	for _, lost := range f.lost {
		why, remedy := f.unproved(lost.of)
		if why == "" || told[lost.Image.Ref] {
			continue
		}
		add(policy.Finding{
			Severity: policy.Deny, Image: p.Settings.SortConsumers(lost.Image), Moved: lost.Settled,
			Reason: fmt.Sprintf("the rollout may stall, as a pod could not pull it, and nothing shows that it does not: %s", why),
			Detail: slices.Concat(lost.Places(), []string{"one is " + lost.by.Pod}, f.whenLater(lost.of, "")),
			Remedy: []string{"make it pullable before nodes are drained for the change", remedy},
		})
	}
	return findings
}

func stallFinding(p plan.Plan, f *Forecast, of *simulation.Result, stall simulation.Stall) policy.Finding {
	finding := policy.Finding{
		Severity: policy.Warn, Image: policy.Image{Ref: stall.Image},
		Reason: fmt.Sprintf("the rollout may stall%s, as a pod could not pull it", f.where(stall)),
		Detail: append([]string{stall.String()}, f.whenLater(of, stall.Pool)...),
		Remedy: []string{"make it pullable by its new route before nodes are drained for the change"},
	}
	if stall.Image == "" { // none of them alone is known to hold it up
		finding.Reason = fmt.Sprintf("the rollout may stall%s, and would not if every image could be pulled everywhere", f.where(stall))
		finding.Remedy = []string{simulate}
	}
	if a := f.pulls.worst(stall); a != nil {
		finding.Image, finding.Moved = p.Settings.SortConsumers(a.Image), a.Settled
		if a.Settled {
			finding.Reason += "; the change leaves its route as it is"
			finding.Detail = append(finding.Detail, a.Places()...)
			finding.Remedy = []string{"make it pullable there before nodes are drained for the change, or for anything else"}
		}
		if pullAfter(a) == rollout.PullUnknown {
			finding.Remedy = a.VerifyRemedy()
		}
		if pullAfter(a) != rollout.PullWorks && !asksWithOwnSecrets(a) {
			finding.Severity = policy.Deny
		}
	}
	if n := len(of.Stalls) - 1; n > 0 {
		finding.Detail = append(finding.Detail, text.Plural(n, "other drain stalls", "other drains stall")+" as well: "+simulate)
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
