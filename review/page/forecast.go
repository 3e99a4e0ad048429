package page

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// maxSteps is how many steps of a course are listed, maxObstacles how many obstacles.
const maxSteps, maxObstacles = 24, 30

// addForecast adds the rollout that a change begins, if it is known.
func (l *layout) addForecast(f *v1alpha1.Forecast) {
	if f == nil {
		return
	}
	fate := map[string]node{}
	var course []part
	drains := slices.ContainsFunc(f.Pools, func(p v1alpha1.PoolStep) bool { return p.Drains && p.Part == "takes" })
	switch s := f.Simulation; {
	case s != nil:
		if !s.Partial { // else it proves nothing
			fate = fates(s)
		}
		course = courseOf(s)
	case drains:
		course = []part{listOf("", "unknown", []string{"The drains were not simulated: pods or nodes could not be read."})}
	}
	lanes := make([]lane, min(len(f.Pools), maxPools))
	for i := range lanes {
		lanes[i] = forecastLane(&f.Pools[i], fate)
	}
	parts := append([]part{listOf("", "", []string{"It " + f.Summary + "."}), lanesOf(lanes, len(f.Pools))}, course...)
	l.add(section{ID: "rollout", Title: "The rollout"}, append(parts, unmanaged(f.Unmanaged))...)
}

// lanesOf returns the lanes of the first of several pools.
func lanesOf(lanes []lane, pools int) part {
	more := ""
	if left := pools - len(lanes); left > 0 {
		more = "And " + text.Count(left, "more pool") + "."
	}
	return partOf("lane", more, lanes)
}

func unmanaged(nodes []v1alpha1.UnmanagedNode) part {
	return listOf("Nodes that no pool updates", "", convert.Each(nodes, func(n v1alpha1.UnmanagedNode) string { return n.Node + " " + n.Why }))
}

// fates says what becomes of each node.
func fates(c *v1alpha1.Simulation) map[string]node {
	all := map[string]node{}
	for _, s := range c.Steps {
		if s.Updated {
			all[s.Node] = node{Kind: "good", What: "updated"}
		}
	}
	for _, s := range c.Stalls {
		n := node{Kind: "bad", What: "stalls here"}
		if s.Possible {
			n = node{Kind: "unknown", What: "may stall here"}
		}
		all[s.Node] = n
	}
	return all
}

// forecastLane returns the lane of a pool, with its nodes in the order in which MCO takes them.
func forecastLane(p *v1alpha1.PoolStep, fate map[string]node) lane {
	l := lane{Name: p.Name}
	if p.Part == "takes" {
		l.Text = p.Decision + ": " + pace(p)
	} else if l.Text = p.Part; p.Why != "" {
		l.Text += ": " + p.Why
	}
	for _, reason := range p.Reasons {
		l.Clauses = append(l.Clauses, "Why it drains: "+reason)
	}
	nodes := make([]node, len(p.Nodes))
	for i, name := range p.Nodes {
		n, known := fate[name]
		switch {
		case !known && len(fate) > 0 && p.Drains:
			n = node{Kind: "note", What: "not reached"}
		case !known:
			n = node{Kind: "note", What: p.Decision}
		}
		n.Name = name
		nodes[i] = n
	}
	return l.of(nodes)
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

// courseOf says how the rollout ends, step by step, and what drains meet.
func courseOf(s *v1alpha1.Simulation) []part {
	steps := convert.Each(s.Steps, func(s v1alpha1.Step) string { return s.Text })
	steps = append(steps, convert.Each(s.Stalls, func(s v1alpha1.Stall) string { return s.Text })...)
	if before := len(steps) - maxSteps; before > 0 { // the end is what counts
		steps = append([]string{text.Count(before, "step") + " before these"}, steps[before:]...)
	}
	obstacles := convert.Each(s.Obstacles, func(o v1alpha1.Obstacle) string { return o.Text })
	return []part{
		partOf("list", "", []line{outcomeOf(s)}), listOf("Step by step", "", append(steps, s.Waiting...)),
		listOf("What drains meet", "", text.First(obstacles, maxObstacles, "")),
	}
}

func outcomeOf(s *v1alpha1.Simulation) line {
	switch {
	case len(s.Stalls) > 0:
		return line{"bad", "At worst, the rollout stalls at " + s.Stalls[0].Node + "."}
	case s.Partial:
		return line{"unknown", "Not determined: time was up."}
	case s.Finishes:
		return line{"good", "All nodes are updated."}
	case len(s.Waiting) > 0:
		return line{"warn", "Nodes are left that MCO does not take."}
	default:
		return line{"unknown", "Not determined whether it ends."}
	}
}
