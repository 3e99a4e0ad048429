package forecast

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// DrainBlocked: drains will wait, whatever images the nodes can pull: for a budget that
// allows no eviction, or for one of a pod that can run nowhere else. They would wait today as well,
// for any change that drains; but it is this one that drains.
func drainBlocked(_ plan.Plan, f *Forecast) []policy.Finding {
	if f.Simulation == nil {
		return nil
	}
	obstacles, told := obstacleLines(f.Simulation.Obstacles)
	var detail, others []string
	for _, stall := range f.Simulation.Stalls {
		switch {
		case stall.ByImage:
		case len(detail) == 0:
			detail = append(detail, stall.String())
		case stall.Why == "" || len(stall.Budgets) != 1 || !told[stall.Budgets[0]]: // else the line of the obstacle says it, and what would help
			others = append(others, stall.String())
		}
	}
	detail = slices.Concat(detail, obstacles, others)
	if len(detail) == 0 {
		return nil
	}
	reason := detail[0]
	if n := len(detail) - 1; n > 0 {
		reason = fmt.Sprintf("%s (and %s more)", reason, text.Number(n))
	}
	return []policy.Finding{{
		Severity: policy.Warn, Reason: reason, Detail: text.First(detail[1:], maxObstacles, "line"), Remedy: []string{simulate},
	}}
}

// obstacleLines describes obstacles, budgets with the same help in one line, and returns the budgets told of.
func obstacleLines(obstacles []simulation.Obstacle) (lines []string, told map[string]bool) {
	alike, first := map[string][]string{}, map[string]simulation.Obstacle{}
	var keys []string
	told = map[string]bool{}
	for _, o := range obstacles {
		for _, b := range o.Budgets {
			told[b] = true
		}
		key := string(o.Kind) + "\n" + o.Why + "\n" + o.Help
		if len(o.Budgets) != 1 {
			key += "\n" + strings.Join(o.Budgets, " ")
		}
		if _, known := first[key]; !known {
			first[key], keys = o, append(keys, key)
			continue
		}
		alike[key] = append(alike[key], strings.Join(o.Budgets, " and "))
	}
	for _, key := range keys {
		line := first[key].String()
		if names := alike[key]; len(names) > 0 {
			line += "; likewise " + text.Plural(len(names), "budget", "budgets") + ": " + text.Names(names, policy.MaxConsumers)
		}
		lines = append(lines, line)
	}
	return lines, told
}

// simulate is what shows more of a rollout than a finding.
const simulate = "mirrorset-guard check -f FILE --simulate shows each step, and what would help"

// maxObstacles is how many lines a finding has.
const maxObstacles = 6
