package page

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// MaxNodes is how many nodes of a pool are drawn.
	MaxNodes = 60
	// maxPools is how many pools are.
	maxPools = 30
)

// Forecast draws the pools that take part in the rollout of a change, with what becomes of their nodes.
func Forecast(f *v1alpha1.Forecast) []answer.Block {
	if f == nil {
		return nil
	}
	fate := map[string]answer.Cell{}
	if s := f.Simulation; s != nil && !s.Partial { // else it proves nothing
		fate = fates(s)
	}
	var blocks []answer.Block
	for i := range f.Pools[:min(len(f.Pools), maxPools)] {
		blocks = append(blocks, pool(&f.Pools[i], fate)...)
	}
	if left := len(f.Pools) - maxPools; left > 0 {
		blocks = append(blocks, answer.Paragraphf("And %s.", text.Count(left, "more pool")))
	}
	for _, n := range f.Unmanaged {
		blocks = append(blocks, answer.Paragraphf("No pool updates %s: it %s.", n.Node, n.Why))
	}
	return blocks
}

// fates says what becomes of each node.
func fates(s *v1alpha1.Simulation) map[string]answer.Cell {
	all := map[string]answer.Cell{}
	for _, step := range s.Steps {
		if step.Updated {
			all[step.Node] = answer.Cell{Tone: answer.Good, Word: "updated"}
		}
	}
	for _, stall := range s.Stalls {
		c := answer.Cell{Tone: answer.Bad, Word: "stalls here"}
		if stall.Possible {
			c = answer.Cell{Tone: answer.Unknown, Word: "may stall here"}
		}
		all[stall.Node] = c
	}
	return all
}

// pool draws a pool, with its nodes in the order in which MCO takes them.
func pool(p *v1alpha1.PoolStep, fate map[string]answer.Cell) []answer.Block {
	lines := []string{p.Part}
	if p.Part == "takes" {
		lines[0] = p.Decision + ": " + pace(p)
	} else if p.Why != "" {
		lines[0] += ": " + p.Why
	}
	for _, reason := range p.Reasons {
		lines = append(lines, "Why it drains: "+reason)
	}
	cells := make([]answer.Cell, len(p.Nodes))
	for i, name := range p.Nodes {
		c, known := fate[name]
		switch {
		case !known && len(fate) > 0 && p.Drains:
			c = answer.Cell{Tone: answer.Idle, Word: "not reached"}
		case !known:
			c = answer.Cell{Tone: answer.Idle, Word: p.Decision}
		}
		c.Name = name
		cells[i] = c
	}
	return []answer.Block{answer.List{Title: "Pool " + p.Name, Items: answer.Indented(lines)}, answer.Grid{Cells: cells, Most: MaxNodes}}
}

// pace says how many nodes are updated at once, and how long that takes.
func pace(p *v1alpha1.PoolStep) string {
	s := text.Count(len(p.Nodes), "node")
	if p.Capacity > 0 && len(p.Nodes) > 1 {
		s += fmt.Sprintf(", %s at once", text.Number(p.Capacity))
	}
	if p.Time.MaxSeconds > 0 {
		s += ", " + spanText(p.Time)
	}
	return s
}
