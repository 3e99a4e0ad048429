package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Range is a time that something takes, from the least to the most that is to be expected.
type Range struct{ Min, Max time.Duration }

// Settings are the times that MCO takes for a node. A zero Range stands for its default.
type Settings struct {
	// Drain is the time for a node that is drained, from cordon to uncordon, without a
	// reboot: what it took in the pool's last rollout, or 5 to 15 minutes. A drain that a budget holds up takes as long as that lasts.
	Drain Range
	// Reload is the time for a node that is not drained and does not reboot: 5 to 20
	// seconds, of which 5 are the delay of MCO's node controller (defaultUpdateDelay,
	// node_controller.go).
	Reload Range
	// Reboot is the time that a reboot adds: 4 to 15 minutes.
	Reboot Range
}

var defaults = Settings{
	Drain:  Range{5 * time.Minute, 15 * time.Minute},
	Reload: Range{5 * time.Second, 20 * time.Second},
	Reboot: Range{4 * time.Minute, 15 * time.Minute},
}

// Validate returns what is wrong with s, all of it.
func (s Settings) Validate() error {
	var errs []error
	for _, r := range []struct {
		name string
		Range
	}{{"drain", s.Drain}, {"reload", s.Reload}, {"reboot", s.Reboot}} {
		if r.Min < 0 || r.Max < r.Min {
			errs = append(errs, fmt.Errorf("time to %s a node: %v to %v is no range", r.name, r.Min, r.Max))
		}
	}
	return errors.Join(errs...)
}

// perNode returns how long a node takes.
func (s Settings) perNode(d Decision) Range {
	node := cmp.Or(s.Reload, defaults.Reload)
	if d.Drains {
		node = cmp.Or(s.Drain, defaults.Drain)
	}
	if d.Effect() != Reboots {
		return node
	}
	return node.plus(cmp.Or(s.Reboot, defaults.Reboot))
}

func (r Range) times(n int) Range      { return Range{r.Min * time.Duration(n), r.Max * time.Duration(n)} }
func (r Range) plus(other Range) Range { return Range{r.Min + other.Min, r.Max + other.Max} }

// Longer returns the time of two things side by side.
func (r Range) Longer(other Range) Range {
	return Range{max(r.Min, other.Min), max(r.Max, other.Max)}
}

// String returns the range in whole minutes, or hours or days where it is long: "45 to 135
// minutes".
func (r Range) String() string {
	switch {
	case r.Max == 0:
		return "no time"
	case r.Max <= time.Minute:
		return "about a minute"
	case r.Max <= 10*time.Hour:
		return inUnits(r, time.Minute, "minute")
	case r.Max <= 4*24*time.Hour:
		return inUnits(r, time.Hour, "hour")
	default:
		return inUnits(r, 24*time.Hour, "day")
	}
}

// inUnits rounds up: a rollout that takes 40 seconds at least takes a minute.
func inUnits(r Range, unit time.Duration, name string) string {
	least, most := int64((r.Min+unit-1)/unit), int64((r.Max+unit-1)/unit)
	switch {
	case most == 1:
		return "about a " + name
	case least == most:
		return fmt.Sprintf("about %d %ss", most, name)
	default:
		return fmt.Sprintf("%d to %d %ss", least, most, name)
	}
}
