package policy

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// DrainBlocked: drains will wait, whatever images the nodes can pull: for a budget that
// allows no eviction, or for one of a pod that can run nowhere else. They would wait today as well,
// for any change that drains; but it is this one that drains.
func drainBlocked(_ Plan, f *Forecast) []Finding {
	if f.Simulation == nil {
		return nil
	}
	var detail []string
	for _, stall := range f.Simulation.Worst.Stalls {
		if !stall.ByImage {
			detail = append(detail, stall.String())
		}
	}
	for _, o := range f.Simulation.Obstacles {
		if !isHarmless(o) {
			detail = append(detail, o.String())
		}
	}
	if len(detail) == 0 {
		return nil
	}
	reason := detail[0]
	if n := len(detail) - 1; n > 0 {
		reason = fmt.Sprintf("%s (and %s more)", reason, text.Number(n))
	}
	return []Finding{{
		Severity: Warn, Reason: reason, Detail: text.First(detail[1:], maxObstacles, "line"), Remedy: []string{simulate},
	}}
}

// simulate is what shows more of a rollout than a finding.
const simulate = "mirrorset-guard check -f FILE --simulate shows each step, and what would help"

// isHarmless reports whether a drain gets past an obstacle by itself; only the simulation shows it. A pod
// that fits one node only is evicted all the same, unless a budget holds it.
func isHarmless(o simulation.Obstacle) bool {
	return o.Kind == simulation.OneByOne || o.Kind == simulation.NotReplaced || o.Kind == simulation.CannotMove && len(o.Budgets) == 0
}

// maxObstacles is how many lines a finding has.
const maxObstacles = 20
