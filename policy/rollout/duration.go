package rollout

import (
	"fmt"
	"time"
)

// Range is a time that something takes, from the least to the most that is to be expected.
type Range struct{ Min, Max time.Duration }

// The times that MCO takes for a node.
var (
	// drainTime is that of a node that is drained, from cordon to uncordon, without a reboot. A drain that a budget holds up takes as long as that lasts.
	drainTime = Range{5 * time.Minute, 15 * time.Minute}
	// reloadTime is that of a node that is not drained and does not reboot: 5 seconds are the delay of
	// MCO's node controller (defaultUpdateDelay, node_controller.go).
	reloadTime = Range{5 * time.Second, 20 * time.Second}
	// rebootTime is what a reboot adds.
	rebootTime = Range{4 * time.Minute, 15 * time.Minute}
)

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
