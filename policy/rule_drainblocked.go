package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// DrainBlocked: drains will wait, whatever images the nodes can pull: for a budget that
// allows no eviction, or for a pod that can run nowhere else. They would wait today as well,
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
		if !slices.Contains(harmless, o.Kind) {
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
		Severity: Warn, Reason: reason, Detail: text.First(detail, maxObstacles, "line"),
		Remedy: []string{"mirrorset-guard check --simulate shows each step, and what would help"},
	}}
}

// harmless are the obstacles that a drain gets over by itself. The simulation tells of them.
var harmless = []simulation.ObstacleKind{simulation.OneByOne, simulation.NotReplaced}

// maxObstacles is how many lines a finding has.
const maxObstacles = 20
