package forecast

import (
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// RolloutBusy: MCO is in the middle of another rollout, or cannot make one. The change is rendered all
// the same, and nodes get it with what they wait for already; it is harder to tell afterwards which
// change went wrong.
func rolloutBusy(p plan.Plan, f *Forecast) []policy.Finding {
	busy := p.Known.Rollout.Busy()
	if len(busy) == 0 || !f.Reaches() {
		return nil
	}
	reason := busy[0]
	if n := len(busy) - 1; n > 0 {
		reason += " (and " + text.Number(n) + " more)"
	}
	return []policy.Finding{{
		Severity: policy.Warn, Reason: reason, Detail: busy,
		Remedy: []string{"wait until all pools are updated (oc get machineconfigpools), unless the change is the repair"},
	}}
}
