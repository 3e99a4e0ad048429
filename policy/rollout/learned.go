package rollout

import (
	"slices"
	"time"
)

// NodeUpdate is MCO's report of the last update of a node (MachineConfigNode).
type NodeUpdate struct {
	Node, Pool string
	// Config is the rendered config that the node has, or is on its way to.
	Config string
	// Drained says that the update drained the node, or is to.
	Drained bool
	// Began is when the node was taken, and Ended when it was done. MCO overwrites the first
	// with the second (generateAndApplyMachineConfigNodes, pkg/upgrademonitor/upgrade_monitor.go),
	// so that one of them is usually zero: Ended while the update is under way, Began
	// afterwards.
	Began, Ended time.Time
}

// leastLearned is how many nodes have to have been timed: fewer say little about the others.
const leastLearned = 3

// LearnedDrain returns how long the nodes of a pool took, each, in the last rollout that
// drained them, from the tenth to the ninetieth percentile; false if it cannot be told.
// AtOnce is how many were updated at once.
//
// Where a beginning is not known, it is the end of the update atOnce nodes before: MCO takes
// the next node whenever one is done. Updates that ended before they began are ignored: the
// times come from the clocks of nodes.
func LearnedDrain(updates []NodeUpdate, pool string, atOnce int) (Range, bool) {
	last := lastRollout(updates, pool)
	var took []time.Duration
	for i, u := range last {
		began := u.Began
		if began.IsZero() && atOnce > 0 && i >= atOnce {
			began = last[i-atOnce].Ended
		}
		if d := u.Ended.Sub(began); !began.IsZero() && d > 0 {
			took = append(took, d)
		}
	}
	if len(took) < leastLearned {
		return Range{}, false
	}
	slices.Sort(took)
	return Range{took[len(took)/10], took[len(took)-1-len(took)/10]}, true
}

// lastRollout returns the updates of a pool that drained nodes for the config to which the
// last one of them went, in the order in which they ended.
func lastRollout(updates []NodeUpdate, pool string) []NodeUpdate {
	var ended []NodeUpdate
	for _, u := range updates {
		if u.Pool == pool && u.Drained && !u.Ended.IsZero() {
			ended = append(ended, u)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	slices.SortStableFunc(ended, func(a, b NodeUpdate) int { return a.Ended.Compare(b.Ended) })
	config := ended[len(ended)-1].Config
	return slices.DeleteFunc(ended, func(u NodeUpdate) bool {
		return u.Config != config || !u.Began.IsZero() && u.Ended.Before(u.Began)
	})
}
