package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// String returns the forecast in one line, as the end of a sentence about the change:
// "drains and reloads CRI-O on 3 + 9 nodes, one at a time, 45 to 135 minutes; pool gpu is
// paused". It names hold-ups of pools, but no pools that the change does not reach.
func (f Forecast) String() string {
	if f.Hosted {
		return "changes nodes as their NodePool says (Replace or InPlace): hosted clusters are not covered"
	}
	parts := convert.Each(f.groups(), f.groupText)
	if len(parts) == 0 {
		parts = append(parts, "reaches no node")
	}
	for _, p := range f.Pools {
		if held := p.heldText(); held != "" {
			parts = append(parts, held)
		}
	}
	if n := len(f.Unmanaged); n > 0 {
		parts = append(parts, fmt.Sprintf("%s in no pool (%s %s)", text.Plural(n, "node is", "nodes are"), f.Unmanaged[0].Node, f.Unmanaged[0].Why))
	}
	return strings.Join(parts, "; ")
}

// groups returns the pools that take part, those together on whose nodes the same happens.
func (f Forecast) groups() [][]Pool {
	var groups [][]Pool
	for _, p := range f.Pools {
		if p.Part != Takes {
			continue
		}
		i := slices.IndexFunc(groups, func(g []Pool) bool { return g[0].Decision.String() == p.Decision.String() })
		if i < 0 {
			groups = append(groups, []Pool{p})
			continue
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

func (f Forecast) groupText(group []Pool) string {
	decision := group[0].Decision
	var counts []string
	nodes, atOnce, least := 0, 0, 0
	var took Range
	for _, p := range group {
		_, waiting := p.waiting()
		taken := len(p.Nodes) - waiting
		counts = append(counts, text.Number(taken))
		nodes += taken
		atOnce, least = max(atOnce, p.AtOnce), max(least, rounds(taken, p.AtOnce))
		took = took.Longer(f.until(p))
	}
	if !decision.Drains || nodes == 1 {
		return fmt.Sprintf("%s on %s, %s", decision, text.Count(nodes, "node"), took)
	}
	pace := "one at a time"
	if atOnce > 1 {
		pace = fmt.Sprintf("up to %s at a time", text.Number(atOnce))
	}
	if least == 1 {
		pace = "all at once"
	}
	return fmt.Sprintf("%s on %s nodes, %s, %s", decision, strings.Join(counts, " + "), pace, took)
}
