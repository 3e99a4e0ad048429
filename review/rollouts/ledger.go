package rollouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// A phase is the state of the rollout of an object.
type phase int

const (
	none phase = iota // there is none
	underWay
	stalled
)

// A ledger knows what was reported of the rollout of each object. What a budget holds back is
// reported later, if it is still so.
type ledger struct {
	accounts map[string]*account // by key
}

// An account is about one object; the zero Object is what cannot be put down to one, such as
// an entry that was deleted.
type account struct {
	object   mirrors.Object
	reported phase
	began    time.Time
	// pools are those that its rollout goes through, or went through last.
	pools []mirrorPool
	now   phase
	// last are pools that the rollout has left, by name: what is said at its end.
	last map[string]*status.Pool
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

func keyOf(o mirrors.Object) string {
	if o == nil {
		return ""
	}
	return mirrors.NameOf(o) + " " + string(o.GetUID())
}

// enter records the current state. Objects that are gone are forgotten without a report.
func (l *ledger) enter(set mirrors.Set, pools []mirrorPool, now time.Time) {
	for _, a := range l.accounts {
		a.now, a.pools = none, nil
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
			l.account(o, now).enter(p)
		}
	}
	there := map[string]bool{"": true}
	for _, o := range set.Objects {
		there[keyOf(o)] = true
	}
	maps.DeleteFunc(l.accounts, func(key string, a *account) bool { return !there[key] || a.now == none && a.reported == none })
}

func (l *ledger) account(o mirrors.Object, now time.Time) *account {
	key := keyOf(o)
	if l.accounts[key] == nil {
		l.accounts[key] = &account{began: now, last: map[string]*status.Pool{}}
	}
	l.accounts[key].object = o
	return l.accounts[key]
}

func (a *account) enter(p mirrorPool) {
	a.pools = append(a.pools, p)
	a.last[p.Name] = p.Pool.Pool
	a.now = max(a.now, underWay)
	if p.Stall != nil {
		a.now = stalled
	}
}

// report says what has changed, and writes it into the metrics.
func (r *run) report(ctx context.Context, pools []mirrorPool, now time.Time) error {
	if r.set == nil {
		return nil
	}
	r.ledger.enter(*r.set, pools, now)
	var errs []error
	reports := 0
	for _, key := range slices.Sorted(maps.Keys(r.ledger.accounts)) {
		a := r.ledger.accounts[key]
		report, ok := a.report(r.tracker.Pools(now), now)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil { // somebody else may be the leader now
			return err
		}
		if reports == maxReports || !r.budget.Allow(a.object) {
			continue
		}
		reports++
		if err := r.reporter(ctx, report); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", report.Reason, report.name(), err))
			continue
		}
		a.reported = a.now
		r.metrics.reported(report.Reason)
		r.log.Info(report.message(), "object", report.name(), "note", report.Note)
	}
	return errors.Join(errs...)
}

// maxReports bounds the reports of a look. The next ones report the rest, if it is still true.
const maxReports = 20

// report returns what is to be reported, false for nothing.
func (a *account) report(pools []progress.Pool, now time.Time) (Report, bool) {
	r := Report{Object: a.object}
	switch {
	case a.now == a.reported:
		return r, false
	case a.now == stalled:
		r.Reason, r.Note = MirrorRolloutStalled, a.each(func(p mirrorPool) string {
			if p.Stall == nil {
				return ""
			}
			return fmt.Sprintf("pool %s has not moved for %s: %s", p.Name, progress.Short(now.Sub(p.Stall.Since)), p.Stall.Cause)
		})
	case a.now == underWay && a.reported == stalled:
		r.Reason, r.Note = MirrorRolloutResumed, a.each(func(p mirrorPool) string { return fmt.Sprintf("pool %s moves again: %s", p.Name, p.Progress()) })
	case a.now == underWay:
		r.Reason, r.Note = MirrorRolloutBegan, a.each(beganText)
	default:
		r.Reason, r.Note = MirrorRolloutEnded, a.endText(pools, now)
	}
	return r, true
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
	var scopes []string
	for _, r := range p.Changes.Registries {
		scopes = append(scopes, r.Scope)
	}
	note := fmt.Sprintf("pool %s gets %s: registries.conf for %s", p.Name, p.Target, text.Names(scopes, maxNamed))
	if others := len(p.Changes.Files) + len(p.Changes.Units) + len(p.Changes.System); others > 0 {
		note += fmt.Sprintf(", and %s", text.Count(others, "other change"))
	}
	note += fmt.Sprintf("; a node %s, %d at a time", p.Action, p.AtOnce)
	if p.Paused != nil {
		note += "; the pool is paused"
	}
	return note
}

// endText says how the pools are now that the rollout went through. Where an end was not an
// update, such as a change that was taken back, what nodes have says so.
func (a *account) endText(pools []progress.Pool, now time.Time) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.last)) {
		i := slices.IndexFunc(pools, func(p progress.Pool) bool { return p.Name == name })
		if i < 0 {
			parts = append(parts, fmt.Sprintf("pool %s is gone", name))
			continue
		}
		p := pools[i]
		parts = append(parts, fmt.Sprintf("pool %s has %s on %d of %s", name, cmp.Or(p.Target, "(none)"), p.Counts[progress.Done], text.Count(p.Counts.Total(), "node")))
	}
	return fmt.Sprintf("after %s, %s", progress.Short(now.Sub(a.began)), strings.Join(text.First(parts, maxNamed, "pool"), "; "))
}
