package rollout

import (
	"fmt"
	"slices"
)

// A Besides says of which drains of a pool it is not sure whether, or when, they come.
type Besides struct{ Pool, Why string }

// Released returns f as it is once the pools go on that are held, or some of their nodes, about which nobody is asked then; and at worst
// if node actions are not known, or what files nodes have, so that more may differ. Besides are the drains that it has besides those of f.
func (f Forecast) Released(actionsUnknown, filesUnknown bool) (later Forecast, besides []Besides) {
	why := ""
	switch {
	case filesUnknown:
		why = "what they have was not read, and MCO goes on with all that it has rejected so far"
	case actionsUnknown:
		why = fmt.Sprintf("node actions could not be read (%s)", QualifiedResource("machineconfigurations"))
	}
	f.Pools = slices.Clone(f.Pools)
	for i := range f.Pools {
		p := &f.Pools[i]
		held := p.heldText()
		switch {
		case p.Part != Takes && p.Part != Paused && p.Part != Stopped && p.Part != Invalid && (p.Part != Unchanged || !filesUnknown):
			continue
		case p.Decision.Drains && held != "":
			besides = append(besides, Besides{p.Name, "not yet: " + held})
		case !p.Decision.Drains && why != "":
			besides = append(besides, Besides{p.Name, fmt.Sprintf("unless nodes of pool %s are not drained: %s", p.Name, why)})
			p.Decision.Drains = true
		}
		p.Release()
	}
	return f, besides
}

// Release has p take all of its nodes, as if nothing held it or was wrong with any.
func (p *Pool) Release() {
	p.Part, p.AtOnce, p.Nodes = Takes, p.MaxUnavailable, slices.Clone(p.Nodes)
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
