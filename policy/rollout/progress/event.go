package progress

import (
	"cmp"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
)

// Event is something that has happened in a rollout. It is published (v1alpha1.RolloutEvent): types may
// be added without notice, and none is removed or changes its meaning.
type Event struct {
	// Time is when it was seen, by the observer's clock.
	Time time.Time
	Type Type
	// Pool is "" for what concerns all, Node is "" for what concerns the pool.
	Pool string
	Node string
	// Message says it in a clause about the node or, without one, about the pool: "is being
	// drained". Without a pool it is a sentence.
	Message string
	// Config is the rendered config that it is about.
	Config string
	// Objects are the mirror objects that a rollout comes from: "ImageTagMirrorSet shop".
	Objects []string
	// Counts are how many nodes of the pool are in each stage; nil if there is no pool.
	Counts Counts
	// Seconds is how long nothing had moved, for PoolStalled and PoolMoving.
	Seconds int64
	// Causes lead from each symptom to its cause, for PoolStalled. None means that no cause is
	// known.
	Causes []causes.Chain
}

// Counts are numbers of nodes by stage, without those that are zero.
type Counts map[Stage]int

// Total is how many nodes there are.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// Type is the kind of an Event.
type Type string

// The types. Those of the first group are about a pool.
const (
	PoolFound      Type = "PoolFound"    // how the pool was when the observer began, or when it appeared
	PoolBegan      Type = "PoolBegan"    // a rollout began
	PoolRetargeted Type = "PoolRetarget" // another config is on its way instead
	PoolPaused     Type = "PoolPaused"
	PoolResumed    Type = "PoolResumed"
	PoolHeld       Type = "PoolHeld" // no node is taken
	PoolDegraded   Type = "PoolDegraded"
	PoolRecovered  Type = "PoolRecovered" // no longer degraded
	PoolStalled    Type = "PoolStalled"
	PoolMoving     Type = "PoolMoving" // again
	PoolUpdated    Type = "PoolUpdated"
	PoolDeleted    Type = "PoolDeleted"

	NodeFound     Type = "NodeFound" // a node was under way when the observer began
	NodeTaken     Type = "NodeTaken"
	NodeDraining  Type = "NodeDraining"
	NodeDrained   Type = "NodeDrained"
	NodeRebooting Type = "NodeRebooting"
	NodeDone      Type = "NodeDone"
	NodeDegraded  Type = "NodeDegraded"
	NodeWaiting   Type = "NodeWaiting" // again, after it had been taken
	NodeSilent    Type = "NodeSilent"  // its daemon's annotations are gone
	NodeJoined    Type = "NodeJoined"
	NodeLeft      Type = "NodeLeft"

	// Ended says that no pool has a rollout any more.
	Ended Type = "Ended"
)

// Short writes a duration as people say it: "45s", "12m", "1h5m".
func Short(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Minute {
		d = d.Truncate(time.Minute)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return cmp.Or(s, "0s")
}
