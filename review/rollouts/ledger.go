package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A ledger knows what was reported of the rollout of each object. News that a budget holds back is
// reported later, if still true.
type ledger struct {
	accounts map[string]*account // by key
}

// An account is about one object; the zero Object is what cannot be put down to one, such as
// an entry that was deleted.
type account struct {
	object   mirrors.Object
	reported bool // that it began
	began    time.Time
	// pools are those that its rollout goes through, none once it has ended.
	pools []mirrorPool
	// last are pools that the rollout has left, by name, as reported at its end.
	last map[string]*status.Pool
	// stalled are the pools reported to stand still.
	stalled map[string]bool
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

// Author returns the author of Events about rollouts, in the name of instance.
func Author(instance string) events.Author {
	return events.Author{Part: "rollouts", Instance: instance, Action: "Following"}
}

// The reasons of reports: those of the Events on mirror sets.
const (
	MirrorRolloutBegan   = "MirrorRolloutBegan"
	MirrorRolloutStalled = "MirrorRolloutStalled"
	MirrorRolloutResumed = "MirrorRolloutResumed"
	MirrorRolloutEnded   = "MirrorRolloutEnded"
)

// messages are those of log lines.
var messages = map[string]string{
	MirrorRolloutBegan:   "Rollout of a mirror change began",
	MirrorRolloutStalled: "Rollout of a mirror change stands still",
	MirrorRolloutResumed: "Rollout of a mirror change moves again",
	MirrorRolloutEnded:   "Rollout of a mirror change ended",
}

// record records the current state. Objects that are gone are forgotten without a report.
func (l *ledger) record(set mirrors.Set, pools []mirrorPool, now time.Time) {
	for _, a := range l.accounts {
		a.pools = nil
	}
	for _, p := range pools {
		if !p.ByMirrors {
			continue
		}
		objects := progress.Objects(set, p.Changes)
		if len(objects) == 0 {
			objects = []mirrors.Object{nil}
		}
		for _, o := range objects {
			a := l.account(o, now)
			a.pools = append(a.pools, p)
			a.last[p.Name] = p.Pool.Pool
		}
	}
	there := map[string]bool{"": true}
	for _, o := range set.Objects {
		there[watchloop.Key(o)] = true
	}
	maps.DeleteFunc(l.accounts, func(key string, a *account) bool { return !there[key] || len(a.pools) == 0 && !a.reported })
}

func (l *ledger) account(o mirrors.Object, now time.Time) *account {
	key := watchloop.Key(o)
	if l.accounts[key] == nil {
		l.accounts[key] = &account{began: now, last: map[string]*status.Pool{}, stalled: map[string]bool{}}
	}
	l.accounts[key].object = o
	return l.accounts[key]
}

// report reports what has changed.
func (r *run) report(ctx context.Context, pools []mirrorPool, now time.Time) error {
	if r.set == nil {
		return nil
	}
	r.ledger.record(*r.set, pools, now)
	return r.options.Outlet.Pass(ctx, func(yield func(watchloop.News) bool) {
		for _, key := range slices.Sorted(maps.Keys(r.ledger.accounts)) {
			news, ok := r.ledger.accounts[key].news(r.tracker.Pools(now), now)
			if !ok {
				continue
			}
			noted := news.Done
			news.Done = func() { noted(); r.metrics.reported(news.Reason) }
			if !yield(news) {
				return
			}
		}
	})
}

// news returns the next report, if there is one. Each pool is reported for itself: one that is paused
// for weeks must not hide that another one stands still.
func (a *account) news(pools []progress.Pool, now time.Time) (_ watchloop.News, ok bool) {
	newly, again := a.changed()
	switch {
	case len(a.pools) == 0 && !a.reported:
		return watchloop.News{}, false
	case len(a.pools) == 0:
		return a.newsOf(MirrorRolloutEnded, a.endText(pools, now), func() {
			a.reported = false
			clear(a.stalled)
		}), true
	case !a.reported:
		return a.newsOf(MirrorRolloutBegan, a.each(beganText), func() { a.reported = true }), true
	case len(newly) > 0:
		return a.newsOf(MirrorRolloutStalled, a.stalledText(newly, now), func() {
			for _, name := range newly {
				a.stalled[name] = true
			}
		}), true
	case len(again) > 0:
		return a.newsOf(MirrorRolloutResumed, a.againText(again, pools), func() {
			for _, name := range again {
				delete(a.stalled, name)
			}
		}), true
	default:
		return watchloop.News{}, false
	}
}

func (a *account) newsOf(reason, note string, done func()) watchloop.News {
	return watchloop.News{
		Report: watchloop.Report{Object: a.object, Reason: reason, Warning: reason == MirrorRolloutStalled, Message: messages[reason], Note: note},
		Done:   done,
	}
}

func (a *account) stalledText(newly []string, now time.Time) string {
	return a.each(func(p mirrorPool) string {
		if !slices.Contains(newly, p.Name) {
			return ""
		}
		return fmt.Sprintf("pool %s has not moved for %s: %s", p.Name, progress.Short(now.Sub(p.Stall.Since)), p.Stall.Cause)
	})
}

// changed returns the pools that stand still unreported, and those that were reported to and move
// again, both sorted.
func (a *account) changed() (newly, again []string) {
	stands := map[string]bool{}
	for _, p := range a.pools {
		if stands[p.Name] = p.Stall != nil; p.Stall != nil && !a.stalled[p.Name] {
			newly = append(newly, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.stalled)) {
		if !stands[name] {
			again = append(again, name)
		}
	}
	slices.Sort(newly)
	return newly, again
}

// againText says how pools are that have moved again; some may have come to their end.
func (a *account) againText(again []string, pools []progress.Pool) string {
	var parts []string
	for _, name := range again {
		if i := slices.IndexFunc(a.pools, func(p mirrorPool) bool { return p.Name == name }); i >= 0 {
			parts = append(parts, fmt.Sprintf("pool %s moves again: %s", name, a.pools[i].Progress()))
			continue
		}
		parts = append(parts, a.ended(name, pools))
	}
	return strings.Join(text.First(parts, maxNamed, "pool"), "; ")
}

func (a *account) each(say func(mirrorPool) string) string {
	var parts []string
	for _, p := range a.pools {
		if part := say(p); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(text.First(parts, maxNamed, "pool"), "; ")
}

// maxNamed is how many pools or entries a note names.
const maxNamed = 5

// beganText says what goes to the nodes of a pool.
func beganText(p mirrorPool) string {
	note := fmt.Sprintf("pool %s gets %s: registries.conf for %s", p.Name, p.Target, text.Names(p.Changes.Scopes(), maxNamed))
	if others := len(p.Changes.Files) + len(p.Changes.Units) + len(p.Changes.System); others > 0 {
		note += fmt.Sprintf(", and %s", text.Count(others, "other change"))
	}
	note += fmt.Sprintf("; a node %s, %d at a time", p.Action, p.AtOnce)
	if p.Paused != nil {
		note += "; the pool is paused"
	}
	return note
}

// endText says how the pools are now that the rollout went through.
func (a *account) endText(pools []progress.Pool, now time.Time) string {
	parts := convert.Each(slices.Sorted(maps.Keys(a.last)), func(name string) string { return a.ended(name, pools) })
	return fmt.Sprintf("after %s, %s", progress.Short(now.Sub(a.began)), strings.Join(text.First(parts, maxNamed, "pool"), "; "))
}

// ended says how a pool is that the rollout has left. Where its end was not an update, such as a change
// that was taken back, what nodes have says so.
func (a *account) ended(name string, pools []progress.Pool) string {
	i := slices.IndexFunc(pools, func(p progress.Pool) bool { return p.Name == name })
	if i < 0 {
		return fmt.Sprintf("pool %s is gone", name)
	}
	p := pools[i]
	target, nodes := cmp.Or(p.Target, "(none)"), text.Count(p.Counts.Total(), "node")
	if p.Active && p.Target != a.last[name].Target { // the counts are about the next rollout
		return fmt.Sprintf("pool %s goes on to %s, in which nothing of this is new to its %s", name, target, nodes)
	}
	return fmt.Sprintf("pool %s has %s on %d of %s", name, target, p.Counts[progress.Done], nodes)
}
