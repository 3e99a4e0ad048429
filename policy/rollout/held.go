package rollout

import (
	"fmt"
	"slices"
)

// A Besides says of which drains of a pool it is not sure whether, or when, they come.
type Besides struct{ Pool, Why string }

// Released returns f as it is once the pools that are paused or stopped go on, about which nobody is asked then, and at
// worst if node actions are not known; and which drains it has besides those of f.
func (f Forecast) Released(actionsUnknown bool) (later Forecast, besides []Besides) {
	f.Pools = slices.Clone(f.Pools)
	for i := range f.Pools {
		p := &f.Pools[i]
		held := p.Part == Paused || p.Part == Stopped
		switch {
		case p.Part != Takes && !held:
			continue
		case p.Decision.Drains && held:
			besides = append(besides, Besides{p.Name, "not yet: " + p.heldText()})
		case !p.Decision.Drains && actionsUnknown:
			besides = append(besides, Besides{p.Name, fmt.Sprintf("unless nodes of pool %s are not drained: node actions could not be read (%s)", p.Name, QualifiedResource("machineconfigurations"))})
			p.Decision.Drains = true
		}
		if held {
			p.Release()
		}
	}
	return f, besides
}

// Release has p take all of its nodes, as if nothing held it or was wrong with any.
func (p *Pool) Release() {
	p.Part, p.Nodes = Takes, slices.Clone(p.Nodes)
	for i := range p.Nodes {
		p.Nodes[i].Unavailable = ""
	}
}

// heldText says what keeps nodes of the pool from the change, "" if nothing does.
func (p *Pool) heldText() string {
	switch p.Part {
	case Paused:
		return fmt.Sprintf("pool %s is paused", p.Name)
	case Stopped, Invalid:
		return fmt.Sprintf("no node of pool %s is taken: %s", p.Name, p.Why)
	case Unreadable:
		return fmt.Sprintf("nodes of pool %s will be degraded: %s", p.Name, p.Why)
	case Unselected:
		return fmt.Sprintf("pool %s does not get it: %s", p.Name, p.Why)
	case Takes:
		if why, n := p.waiting(); n > 0 {
			return fmt.Sprintf("pool %s cannot finish: %s", p.Name, why)
		}
	}
	return ""
}
