package watch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Outcome is the end of a watch.
type Outcome struct {
	Good    bool
	message string // a sentence
}

// missed returns the outcome of a wait in vain.
func missed(format string, args ...any) *Outcome {
	return &Outcome{false, fmt.Sprintf(format, args...) + "; mirrorset-guard rollout diagnose says what can be done"}
}

// The types of events that are about the watch itself. See progress.Type.
const (
	Away    progress.Type = "Unreachable" // the API server
	Back    progress.Type = "Reachable"   // again
	Reached progress.Type = "Reached"     // the goal
	Missed  progress.Type = "Missed"
)

// How long a watch puts up with what may pass by itself: an API server that refuses what it
// granted, and what could not be read for another reason.
const (
	refusedFor = time.Minute
	unknownFor = 15 * time.Second
)

// judge returns the outcome once there is one. The error says why there will be none.
func (w *Watcher) judge(now time.Time) (*Outcome, error) {
	switch {
	case !w.away.since.IsZero():
		if w.away.refused() && now.Sub(w.away.since) >= refusedFor {
			return nil, fmt.Errorf("the API server no longer lets this user read: %w", w.away.err)
		}
		return nil, nil
	case !w.lost.IsZero():
		return nil, nil
	case w.goneText() != "":
		return nil, errors.New(w.goneText())
	case w.reach.Reached:
		return &Outcome{true, w.reachedText()}, nil
	}
	if o := w.badPool(now); o != nil {
		return o, nil
	}
	return w.unmet.judge(w, now)
}

func (w *Watcher) reachedText() string {
	if w.reach.Nodes == 0 {
		return "Updated: there are no nodes to wait for."
	}
	nodes := text.Plural(w.reach.Nodes, "node has", "nodes have")
	if w.Goal.OnlyPins() {
		return fmt.Sprintf("%s reached the nodes: each of them holds the images.", w.Goal.Edit.Subject())
	}
	if w.Goal.Edit != nil {
		return fmt.Sprintf("%s reached the nodes of pools: %s what the mirror objects ask for.", w.Goal.Edit.Subject(), nodes)
	}
	return fmt.Sprintf("Updated: all %s what the mirror objects ask for.", nodes)
}

// badPool returns the outcome of a pool that is degraded or stalled. One that was
// degraded before anything is what a change that is waited for may be the remedy of: it has
// as much time as a pool that does not move.
func (w *Watcher) badPool(now time.Time) *Outcome {
	for _, p := range w.countedPools(now) {
		if w.KeepGoing {
			break
		}
		grace := time.Duration(0)
		if w.Goal.Edit != nil && p.DegradedFirst {
			grace = w.StallAfter
		}
		switch {
		case p.Stall != nil:
			return missed("Pool %s has not moved for %s: %s", text.Line(p.Name), progress.Short(now.Sub(p.Stall.Since)), p.Stall.Cause)
		case !p.Degraded.IsZero() && now.Sub(p.Degraded) >= grace:
			return missed("Pool %s is degraded: %s", text.Line(p.Name), p.Trouble())
		}
	}
	return nil
}

// goneText says that a pool that is waited for is gone, "" if all are there.
func (w *Watcher) goneText() string {
	pools := w.tracker.Status().Pools
	for _, name := range w.Goal.Pools {
		if !slices.ContainsFunc(pools, func(p status.Pool) bool { return p.Name == name }) {
			return fmt.Sprintf("pool %s is gone", text.Line(name))
		}
	}
	return ""
}

// countedPools are those that are waited for.
func (w *Watcher) countedPools(now time.Time) []progress.Pool {
	return slices.DeleteFunc(w.tracker.Pools(now), func(p progress.Pool) bool { return !w.counts(p.Name) })
}

func (w *Watcher) counts(pool string) bool {
	return len(w.Goal.Pools) == 0 || slices.Contains(w.Goal.Pools, pool)
}

// counted returns those of events that are about pools that are waited for.
func (w *Watcher) counted(events []progress.Event) []progress.Event {
	return slices.DeleteFunc(events, func(e progress.Event) bool {
		return e.Pool != "" && !w.counts(e.Pool) || e.Type == progress.Ended && len(w.Goal.Pools) > 0
	})
}

// unmet is a time in which a goal is not reached although no pool has a rollout.
type unmet struct {
	missing, unknown string
	since            time.Time
}

// blind says that nothing was seen for d.
func (u *unmet) blind(d time.Duration) { u.since = u.since.Add(d) }

func (u *unmet) judge(w *Watcher, now time.Time) (*Outcome, error) {
	active := slices.ContainsFunc(w.countedPools(now), func(p progress.Pool) bool { return p.Active })
	unknown := w.reach.Unknown != "" // for one reason or another
	if active || u.missing != w.reach.Missing || (u.unknown != "") != unknown {
		u.since = now
	}
	u.missing, u.unknown = w.reach.Missing, w.reach.Unknown
	waited := now.Sub(u.since)
	switch {
	case u.unknown != "" && waited >= unknownFor:
		return nil, errors.New(u.unknown)
	case u.missing != "" && waited >= w.StallAfter && !w.KeepGoing:
		return missed("Nothing has happened for %s: %s", progress.Short(waited), u.missing), nil
	default:
		return nil, nil
	}
}
