package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// A watchOutcome says how a watch ended.
type watchOutcome struct {
	good    bool
	message string // a sentence
}

// missed returns the outcome that what was waited for does not come.
func missed(format string, args ...any) *watchOutcome {
	return &watchOutcome{false, fmt.Sprintf(format, args...) + "; mirrorset-guard rollout diagnose says what can be done"}
}

// The types of events that are about the watch itself. See progress.Type.
const (
	watchAway    progress.Type = "Unreachable" // the API server
	watchBack    progress.Type = "Reachable"   // again
	watchReached progress.Type = "Reached"     // what was waited for
	watchMissed  progress.Type = "Missed"
)

// How long a watch puts up with what may pass by itself: an API server that refuses what it
// granted, and what could not be read for another reason.
const (
	refusedFor = time.Minute
	unknownFor = 15 * time.Second
)

// judge returns the outcome once there is one. The error says why there will be none.
func (w *watcher) judge(now time.Time) (*watchOutcome, error) {
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
		return &watchOutcome{true, w.reachedText()}, nil
	}
	if o := w.badPool(now); o != nil {
		return o, nil
	}
	return w.unmet.judge(w, now)
}

func (w *watcher) reachedText() string {
	if w.reach.Nodes == 0 {
		return "Updated: there are no nodes."
	}
	nodes := text.Plural(w.reach.Nodes, "node has", "nodes have")
	if w.goal.Edit != nil {
		return fmt.Sprintf("%s reached the nodes: %s what the mirror objects ask for.", w.goal.Edit.Subject(), "all "+nodes)
	}
	return fmt.Sprintf("Updated: all %s what the mirror objects ask for.", nodes)
}

// badPool returns the outcome of a pool that is degraded or stands still. One that was
// degraded before anything is what a change that is waited for may be the remedy of: it has
// as much time as a pool that does not move.
func (w *watcher) badPool(now time.Time) *watchOutcome {
	for _, p := range w.countedPools(now) {
		if w.keepGoing {
			break
		}
		patience := time.Duration(0)
		if w.goal.Edit != nil && p.DegradedFirst {
			patience = w.stallAfter
		}
		switch {
		case p.Stall != nil:
			return missed("Pool %s has not moved for %s: %s", text.Line(p.Name), progress.Short(now.Sub(p.Stall.Since)), p.Stall.Cause)
		case !p.Degraded.IsZero() && now.Sub(p.Degraded) >= patience:
			return missed("Pool %s is degraded: %s", text.Line(p.Name), p.Trouble())
		}
	}
	return nil
}

// goneText says that a pool of --pool is gone, "" if all are there.
func (w *watcher) goneText() string {
	pools := w.tracker.Status().Pools
	for _, name := range w.pools {
		if !slices.ContainsFunc(pools, func(p status.Pool) bool { return p.Name == name }) {
			return fmt.Sprintf("pool %s is gone", text.Line(name))
		}
	}
	return ""
}

// countedPools are those of --pool.
func (w *watcher) countedPools(now time.Time) []progress.Pool {
	return slices.DeleteFunc(w.tracker.Pools(now), func(p progress.Pool) bool { return !w.counts(p.Name) })
}

func (w *watcher) counts(pool string) bool {
	return len(w.pools) == 0 || slices.Contains(w.pools, pool)
}

// counted returns those of events that are about pools of --pool.
func (w *watcher) counted(events []progress.Event) []progress.Event {
	return slices.DeleteFunc(events, func(e progress.Event) bool {
		return e.Pool != "" && !w.counts(e.Pool) || e.Type == progress.Ended && len(w.pools) > 0
	})
}

// An unmet knows for how long a goal has not been reached although no pool has a rollout.
type unmet struct {
	missing, unknown string
	since            time.Time
}

// blind says that nothing was seen for d.
func (u *unmet) blind(d time.Duration) { u.since = u.since.Add(d) }

func (u *unmet) judge(w *watcher, now time.Time) (*watchOutcome, error) {
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
	case u.missing != "" && waited >= w.stallAfter && !w.keepGoing:
		return missed("Nothing has happened for %s: %s", progress.Short(waited), u.missing), nil
	default:
		return nil, nil
	}
}
