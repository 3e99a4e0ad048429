package policy

import "github.com/mirrorset-guard/mirrorset-guard/internal/text"

// RolloutBusy: MCO is in the middle of another rollout, or cannot make one. The change is rendered all
// the same, and nodes get it with what they wait for already; it is harder to tell afterwards which
// change went wrong.
func rolloutBusy(p Plan, f *Forecast) []Finding {
	busy := p.known.Rollout.Busy()
	if len(busy) == 0 || !f.Reaches() {
		return nil
	}
	reason := busy[0]
	if n := len(busy) - 1; n > 0 {
		reason += " (and " + text.Number(n) + " more)"
	}
	return []Finding{{
		Severity: Warn, Reason: reason, Detail: busy,
		Remedy: []string{"wait until all pools are updated (oc get machineconfigpools), unless the change is the repair"},
	}}
}
