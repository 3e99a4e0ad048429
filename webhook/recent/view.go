package recent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A View holds the recent edits as they were at one moment.
type View struct {
	pending []*pending // edits that might still be stored
	count   int
	// shared is set if it covers all replicas.
	shared bool
	edits  *Edits
}

// View returns the recent edits that this process knows of: Add finds out about those that it does
// not know of yet. An error means that it cannot be determined what other replicas have
// admitted. If replicas share nothing, for lack of rights, a View holds only
// what this process admitted, and Notes say so; but if something was shared before, only once
// none of that can be stored any more.
func (e *Edits) View(ctx context.Context) (View, error) {
	e.mu.Lock()
	hasSeenAll := e.shared != nil && !e.latest.absent && e.settled(e.latest) == nil
	view := e.viewNow(true)
	e.mu.Unlock()
	if hasSeenAll {
		return view, nil
	}
	return e.CurrentView(ctx)
}

// CurrentView is View for callers that add nothing: it holds all edits that were admitted when it began.
func (e *Edits) CurrentView(ctx context.Context) (View, error) { return e.readView(ctx, e.settled) }

// readView is CurrentView, and waits until isReached returns no error for the content of the list.
func (e *Edits) readView(ctx context.Context, isReached func(content) error) (View, error) {
	shared := e.shared != nil
	if shared {
		c, err := e.shared.read(ctx)
		if err == nil {
			err = e.reach(ctx, c, isReached)
		}
		if errors.Is(err, errUnusable) {
			shared, err = false, e.breakLink(err)
		}
		if err != nil {
			return View{}, fmt.Errorf("reading which changes other replicas have admitted: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.viewNow(shared), nil
}

// viewNow is called with the lock held.
func (e *Edits) viewNow(shared bool) View {
	return View{pending: slices.Clone(e.pending), count: e.count, shared: shared, edits: e}
}

// reach waits until isReached returns no error for c, or ctx ends.
func (e *Edits) reach(ctx context.Context, c content, isReached func(content) error) error {
	for {
		e.mu.Lock()
		err, news := isReached(c), e.news
		e.mu.Unlock()
		if err == nil || errors.Is(err, errUnusable) {
			return err
		}
		if ended := pause.For(ctx, pollInterval, news); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

var (
	errNotFollowed = errors.New("the list is not followed yet")
	errNotSettled  = errors.New("the list has just begun to be followed")
)

// followed returns nil if the list was followed until it became c, else an error that says why not. It
// is called with the lock held.
func (e *Edits) followed(c content) error {
	switch {
	case e.link.broken() != nil:
		return e.link.broken()
	case !e.link.followed || isOlder(e.latest.version, c.version):
		return errNotFollowed
	default:
		return nil
	}
}

// settled returns nil if it is known what was in the list before it became c, else an error that says
// why not. It is called with the lock held.
func (e *Edits) settled(c content) error {
	if err := e.followed(c); err != nil {
		return err
	}
	if time.Now().Before(e.link.settled) {
		return errNotSettled
	}
	return nil
}

// AwaitView waits until it is known what other replicas have admitted, or ctx ends. An entry
// that cannot be read may conflict with anything, so AwaitView waits until it is over.
func (e *Edits) AwaitView(ctx context.Context) (View, error) {
	for {
		view, err := e.View(ctx)
		if err == nil {
			if err = view.unreadable(); err == nil {
				return view, nil
			}
		}
		if wait(ctx) != nil {
			return View{}, err
		}
	}
}

// wait waits a moment, or until ctx ends, whose error it returns.
func wait(ctx context.Context) error { return pause.For(ctx, pollInterval, nil) }

// isOlder reports whether version a came before b.
func isOlder(a, b string) bool {
	if a == "" || b == "" {
		return a != b && a == ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Known reports whether v holds what was admitted, and all of it can be read.
func (v View) Known() bool { return v.edits != nil && v.unreadable() == nil }

// Fresh reports whether, to this process's knowledge, nothing was added since v; removals from the list
// do not matter. If replicas share nothing, read, the time when the configuration was read, must not be
// long ago either.
func (v View) Fresh(read time.Time) bool {
	if !v.Known() {
		return false
	}
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != v.count {
		return false
	}
	if v.shared {
		return e.settled(e.latest) == nil
	}
	return time.Since(read) <= MaxReadAge
}

// Alternatives returns the lists of edits with which an edit has to be judged that the sender of ctx asks for, in a
// dry run or for real. InForce is the configuration in force, read at a time not before v. They include the waiting
// edits of senders whose turn is first, each by itself, as these may conflict with each other.
func (v View) Alternatives(ctx context.Context, edit mirrors.Edit, inForce mirrors.Set, read time.Time, dryRun bool) [][]mirrors.Edit {
	if dryRun {
		v = v.admitted()
	}
	others := v.Others(edit, inForce, read)
	all := orders(others)
	for _, claim := range v.claims(edit, v.edits.rankOf(ctx)) {
		all = append(all, append(slices.Clone(others), claim))
	}
	return all
}

// orders returns the orders in which edits may be stored: if several are of one object, any of
// them may be the last one.
func orders(edits []mirrors.Edit) [][]mirrors.Edit {
	if len(edits) == 0 {
		return nil
	}
	all := [][]mirrors.Edit{edits}
	for i, e := range edits {
		if slices.ContainsFunc(edits[:i], e.Overlaps) {
			reversed := slices.Clone(edits)
			slices.Reverse(reversed)
			return append(all, reversed)
		}
	}
	return all
}

// claims returns the waiting edits of other objects than edit's whose senders go before a rank.
func (v View) claims(edit mirrors.Edit, rank int) []mirrors.Edit {
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	var claims []mirrors.Edit
	for _, p := range e.pending {
		if p.claim != 0 && p.claim < rank && p.unreadable == "" && !p.edit.Overlaps(edit) {
			claims = append(claims, p.edit)
		}
	}
	return claims
}

// admitted returns v without the edits of this process that are about to be admitted, and may not be after
// all, and without those of senders that are not known, which may never have been asked for. A dry run is
// judged with the rest: nothing can go wrong after it, and it would be refused because of a change that
// never was.
func (v View) admitted() View {
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	v.pending = slices.DeleteFunc(slices.Clone(v.pending), func(p *pending) bool {
		return p.claim == 0 && (p.stranger || p.own != nil && !p.own.admitted)
	})
	return v
}

// Others returns the edits that may not be stored yet, of other objects than that of edit.
// InForce is the configuration in force, read at a time not before v.
func (v View) Others(edit mirrors.Edit, inForce mirrors.Set, read time.Time) []mirrors.Edit {
	e := v.edits
	e.Observe(inForce, read)
	e.mu.Lock()
	defer e.mu.Unlock()
	var others []mirrors.Edit
	// An edit that is over by now may have been stored after inForce was read, which then lacks it.
	for _, p := range v.pending {
		if p.unreadable == "" && p.claim == 0 && !p.lost && !p.edit.Overlaps(edit) && !p.isIn(inForce, read) {
			others = append(others, p.edit)
		}
	}
	return others
}

// isIn reports whether a configuration that was read holds p. An edit that was first seen after the
// configuration was read is not in it, even if it seems to be: that may be the state before another
// edit in between.
func (p *pending) isIn(set mirrors.Set, read time.Time) bool {
	return p.unreadable == "" && p.at.Before(read) && set.Holds(p.edit)
}

// unreadable returns an error if an entry that may still be stored cannot be read.
func (v View) unreadable() error {
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.overflow) < MaxStoringTime {
		return fmt.Errorf("%w: more than %d", errFull, maxKnown)
	}
	for _, p := range e.pending {
		if p.unreadable != "" && time.Since(p.at) < MaxStoringTime {
			return fmt.Errorf("another replica has admitted a change that cannot be read here: %s", p.unreadable)
		}
	}
	return nil
}
