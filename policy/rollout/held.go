package rollout

import (
	"fmt"
	"slices"
)

// Released returns f as it is once the pools that are paused or stopped go on, about which nobody is asked then; and says
// what holds those that drain.
func (f Forecast) Released() (later Forecast, held []string) {
	f.Pools = slices.Clone(f.Pools)
	for i := range f.Pools {
		if p := &f.Pools[i]; p.Decision.Drains && (p.Part == Paused || p.Part == Stopped) {
			held = append(held, p.heldText())
			p.Part = Takes
		}
	}
	return f, held
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
