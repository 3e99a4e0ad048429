package simulation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// namesShown is how many of a list a text names before it counts the others.
const namesShown = 3

// String returns the stall as a sentence without its end: "worker-2's drain stalls: the
// replacement of openshift-ingress/router-default-abc on worker-1 (already updated) cannot
// pull quay.io/...; budget openshift-ingress/router-default allows no eviction".
func (s Stall) String() string {
	verb := "stalls"
	if s.Possible {
		verb = "may stall"
	}
	return fmt.Sprintf("%s's drain %s: %s", s.Node, verb, strings.Join(s.parts(), "; "))
}

func (s Stall) parts() []string {
	var parts []string
	missing := slices.Clone(s.Missing)
	slices.SortStableFunc(missing, func(a, b proof.Missing) int { return convert.Int(b.Image != "") - convert.Int(a.Image != "") })
	shown := missing[:min(len(missing), namesShown-1)]
	for _, m := range shown {
		parts = append(parts, whatLacks(m, s.Possible))
	}
	if more := len(missing) - len(shown); more > 0 {
		parts = append(parts, text.Count(more, "more pod")+" of the budget cannot be relied on")
	}
	switch {
	case len(s.Budgets) == 0:
		return append(parts, fmt.Sprintf("%s has to end first, and %s", s.Pod, s.Why))
	case len(s.Budgets) > 1:
		return append(parts, fmt.Sprintf("%s has budgets %s, and %s", s.Pod, text.Names(s.Budgets, namesShown), s.Why))
	case s.Why != "":
		return append(parts, fmt.Sprintf("budget %s allows no eviction of %s: %s", s.Budgets[0], s.Pod, s.Why))
	default:
		return append(parts, fmt.Sprintf("budget %s allows no eviction", s.Budgets[0]))
	}
}

// whatLacks returns what a pod lacks, as a clause.
func whatLacks(m proof.Missing, possible bool) string {
	who := m.Pod
	if m.Moved {
		who = "the replacement of " + m.Pod
	}
	if m.Image != "" {
		if m.Node != "" {
			who += " on " + m.Node
		}
		if m.Updated {
			who += " (already updated)"
		}
		if possible {
			return fmt.Sprintf("%s may be unable to pull %s", who, text.ShortDigest(m.Image))
		}
		return fmt.Sprintf("%s cannot pull %s", who, text.ShortDigest(m.Image))
	}
	return who + " " + m.Why
}

// String returns the step as a sentence without its end.
func (s Step) String() string {
	var parts []string
	switch {
	case !s.Drained:
		return fmt.Sprintf("%s (pool %s) is updated without a drain", s.Node, s.Pool)
	case s.Updated:
		parts = append(parts, fmt.Sprintf("%s (pool %s) is drained and updated", s.Node, s.Pool))
	default:
		parts = append(parts, fmt.Sprintf("%s (pool %s) is drained in part", s.Node, s.Pool))
	}
	for _, m := range s.Moves {
		parts = append(parts, m.String())
	}
	if len(s.Refused) > 0 {
		parts = append(parts, text.Names(s.Refused, namesShown)+" cannot be evicted")
	}
	return strings.Join(parts, "; ")
}

// String returns the move as a clause.
func (m Move) String() string {
	where := ""
	if m.To != "" {
		where = " to " + m.To
		if m.Updated {
			where += " (already updated)"
		}
	}
	switch m.Outcome {
	case Gone:
		return m.Pod + " is gone: nothing replaces it"
	case Unschedulable:
		return m.Pod + " fits no node"
	case ImageFails:
		if m.Image == "" {
			return m.Pod + " goes" + where + " and does not start"
		}
		return fmt.Sprintf("%s goes%s and cannot pull %s", m.Pod, where, text.ShortDigest(m.Image))
	default:
		if m.Later {
			return m.Pod + " waits and goes" + where
		}
		return m.Pod + " goes" + where
	}
}

// reasons names what keeps a pod from all nodes.
func reasons(why []scheduling.Obstruction) string {
	var names []string
	for _, o := range scheduling.Obstructions {
		if slices.Contains(why, o) {
			names = append(names, string(o))
		}
	}
	return strings.Join(names, ", ")
}
