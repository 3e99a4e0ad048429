package forecast

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// PoolPaused: nodes of a paused pool pull as before until it is resumed; the change
// is then rolled out with everything else that waits. A pool must not stay paused for long, as its
// nodes get no new certificates.
func poolPaused(p plan.Plan, f *Forecast) []policy.Finding {
	var findings []policy.Finding
	for _, pool := range f.Pools {
		if pool.Part != rollout.Paused {
			continue
		}
		findings = append(findings, policy.Finding{
			Severity: policy.Warn,
			Reason:   fmt.Sprintf("pool %s is paused: its nodes pull as before until it is resumed", pool.Name),
			Detail:   p.Known.Rollout.PausedLines(pool.Name, f.now),
			Remedy:   []string{fmt.Sprintf(`to resume it: oc patch machineconfigpool/%s --type merge -p '{"spec":{"paused":false}}'`, pool.Name)},
		})
	}
	return findings
}
