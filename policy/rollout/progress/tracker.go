package progress

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// DefaultStallAfter is longer than a pod takes to start or to end (its grace period is
// rarely more than some minutes) and well below the hour after which MCO's drain controller
// gives up (drainTimeoutDuration, pkg/controller/drain/drain_controller.go).
const DefaultStallAfter = 10 * time.Minute

// Tracker follows the rollouts of a cluster. It is not safe for concurrent use. It remembers the pools and
// nodes that exist, and forgets those that are gone.
type Tracker struct {
	stallAfter time.Duration
	pools      map[string]*poolTrack
	status     status.Status
	begun      bool // has observed
	active     bool // a pool has a rollout
}

// NewTracker returns a Tracker that has seen nothing. StallAfter is how long a pool may stand still, with a known lasting
// cause, before it counts as stalled; 0 means DefaultStallAfter. Without a known cause, and while a node reboots, it is
// three times as long.
func NewTracker(stallAfter time.Duration) *Tracker {
	return &Tracker{stallAfter: cmp.Or(stallAfter, DefaultStallAfter), pools: map[string]*poolTrack{}}
}

// Observe takes the next view of the cluster and returns what has happened since the last
// one, by pool in the order of the status, and within it the pool's own events first.
func (t *Tracker) Observe(s Sight) []Event {
	t.status = status.Of(s.Input)
	var events []Event
	there, members := map[string]bool{}, map[string]bool{}
	for i := range t.status.Pools {
		p := &t.status.Pools[i]
		there[p.Name] = true
		for _, n := range p.Nodes {
			members[n.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.pools)) {
		if !there[name] {
			events = append(events, t.pools[name].event(s.Time, PoolDeleted, "is gone"))
			delete(t.pools, name)
		}
	}
	for i := range t.status.Pools {
		o := observation{Sight: s, pool: &t.status.Pools[i], members: members}
		track, known := t.pools[o.pool.Name]
		if !known {
			track = &poolTrack{nodes: map[string]*nodeTrack{}, moved: s.Time, diagnosed: s.Time}
			t.pools[o.pool.Name] = track
			track.find(&o)
		} else {
			track.observe(&o)
		}
		events = append(events, o.events...)
	}
	return append(events, t.ended(s.Time)...)
}

// ended says that the last rollout has ended.
func (t *Tracker) ended(now time.Time) []Event {
	was, first := t.active, !t.begun
	t.begun, t.active = true, false
	for _, p := range t.pools {
		t.active = t.active || p.active
	}
	if first || !was || t.active {
		return nil
	}
	return []Event{{Time: now, Type: Ended, Message: "No pool has a rollout under way any more."}}
}

// Blind takes out of account a time before now in which nothing could be seen of the cluster: it does
// not count towards a stall.
func (t *Tracker) Blind(d time.Duration) {
	for _, p := range t.pools {
		p.moved, p.diagnosed = p.moved.Add(d), p.diagnosed.Add(d)
	}
}

// Status is that of the last view. It is shared and must not be changed.
func (t *Tracker) Status() status.Status { return t.status }

// Pools says how far the pools are, in the order of the status.
func (t *Tracker) Pools(now time.Time) []Pool {
	pools := make([]Pool, 0, len(t.status.Pools))
	for i := range t.status.Pools {
		p := &t.status.Pools[i]
		if track := t.pools[p.Name]; track != nil {
			pools = append(pools, track.view(p, now))
		}
	}
	return pools
}
