package recent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Change is an edit that was judged, and is to be admitted.
type Change struct {
	Edit mirrors.Edit
	// InForce is the configuration that it was judged with, Read the time when that was read.
	InForce mirrors.Set
	Read    time.Time
	// Confirms reports whether it is by this change that a configuration holds Edit, and whether that proves its sender an
	// API server; nil: always, and never.
	Confirms func(mirrors.Set) (made, proven bool)
	// Done is called with whether the change is in force, once that is known. It may be nil, and must
	// not block.
	Done func(stored bool)
	// Turn is that of the change; nil for one that is not decided on.
	Turn *Turn
}

// Add adds c, which was judged with the edits in view and is admitted by this call. It returns
// ErrChanged if something was added since; then c is not added, and has to be judged again. Any
// other error means that other replicas cannot know of c. An edit that the configuration holds
// already is not added, as nothing changes.
func (e *Edits) Add(ctx context.Context, view View, c Change) error {
	if c.InForce.Holds(c.Edit) {
		if c.Done != nil {
			c.Done(false)
		}
		return nil
	}
	if c.Turn == nil {
		taken, err := e.takeSeat(ctx, false)
		if err != nil {
			return err
		}
		defer taken.leave()
		c.Turn = &Turn{seat: taken}
	}
	p := &pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit, stranger: c.Turn.seat.room}, at: time.Now(),
		own: &own{seat: c.Turn.seat, confirms: c.Confirms, done: c.Done},
	}
	var err error
	if view.shared {
		err = e.share(ctx, view, p)
	} else {
		err = e.addHere(view, p)
	}
	if errors.Is(err, errFull) && wait(ctx) == nil {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err == nil {
		e.admit(p)
	}
	return err
}

// admit takes note that p is admitted from now on.
func (e *Edits) admit(p *pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.own.admitted, p.own.seat.taken = true, true
	p.at = time.Now()
	e.wake()
}

// addHere adds p to what only this process knows.
func (e *Edits) addHere(view View, p *pending) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != view.count {
		return ErrChanged
	}
	if len(e.pending) >= MaxEntries {
		return errFull
	}
	e.insert(p)
	return nil
}

// insert adds p. It is called with the lock held.
func (e *Edits) insert(p *pending) {
	e.pending = append(e.pending, p)
	e.count++
	e.notify()
	e.wake()
}

// share puts p into the list if nothing was added to that since view, until ctx ends. Meanwhile p
// counts here already, so that it is recognized when it is seen in the list.
func (e *Edits) share(ctx context.Context, view View, p *pending) error {
	e.mu.Lock()
	if e.count != view.count {
		e.mu.Unlock()
		return ErrChanged
	}
	e.insert(p)
	count := e.count
	e.mu.Unlock()
	err := e.write(ctx, count, p)
	if err != nil {
		e.remove(p)
	}
	return err
}

// list returns the entries that are to replace those of c: edits that may still be stored, and entries
// of others that cannot be read here, as long as they count. The only edit in it that is not admitted
// yet is adding, nil for none: write alone knows with what it was judged. It is called with the lock
// held.
func (e *Edits) list(c content, adding *pending) []entry {
	var entries []entry
	listed := map[string]bool{}
	for _, en := range c.entries {
		if _, over := e.over[en.id]; (!over || en.newer) && !e.isPassedOver(en) {
			entries, listed[en.id] = append(entries, en), true
		}
	}
	for _, p := range e.pending {
		if isOurs := p.own != nil && !p.own.withdrawn; isOurs && (p.own.admitted || p.claim != 0 || p == adding) && !listed[p.id] {
			entries = append(entries, p.entry)
		}
	}
	return entries
}

// write writes p into the list unless more than count edits were added to that by now. A response may
// get lost, and this process may not have seen yet that something was taken off the list, so the list
// is read before the next attempt.
func (e *Edits) write(ctx context.Context, count int, p *pending) error {
	for tries := 1; ; tries++ {
		from, entries, err := e.next(count, p)
		if err != nil {
			return err
		}
		err = e.put(ctx, from, entries)
		overtaken := errors.Is(err, ErrChanged)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errUnusable):
			return e.breakLink(err) // nil: it counts here only, which has to suffice
		case errors.Is(err, errFull) && wait(ctx) == nil:
			return fmt.Errorf("telling other replicas of this change: %w: %w", ErrChanged, err)
		case overtaken && tries == maxOvertaken, !overtaken && wait(ctx) != nil:
			return fmt.Errorf("telling other replicas of this change: %w", err)
		}
		now, readErr := e.shared.read(ctx)
		switch {
		case readErr != nil: // perhaps next time
		case slices.ContainsFunc(now.entries, func(other entry) bool { return other.id == p.id }):
			return nil // by one of these tries: nothing else writes it, see list
		case e.catchUp(ctx, now) != nil:
			return fmt.Errorf("telling other replicas of this change: %w", ErrChanged)
		}
	}
}

// next returns the entries to write, with p, and the content that they replace; ErrChanged if more than
// count edits were added, or may have been.
func (e *Edits) next(count int, p *pending) (from content, entries []entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != count || e.latest.absent || e.settled(e.latest) != nil {
		return content{}, nil, ErrChanged
	}
	return e.latest, e.list(e.latest, p), nil
}

// catchUp waits a moment for this process to see c.
func (e *Edits) catchUp(ctx context.Context, c content) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return e.reach(ctx, c, e.settled)
}

// put replaces from by entries. There is no version between the two.
func (e *Edits) put(ctx context.Context, from content, entries []entry) error {
	from.known = e.senders.known()
	after, err := e.shared.write(ctx, from, entries)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.link.worked, e.link.tried = true, true
	if e.link.followed && e.latest.same(from) {
		e.follows(after, false)
	}
	return nil
}

// remove takes note that p is not admitted. It may be in the list, where Run finds it.
func (e *Edits) remove(p *pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = slices.DeleteFunc(e.pending, func(other *pending) bool { return other == p })
	e.over[p.id] = time.Now()
	p.own.withdrawn = true
	e.notify()
	e.wake()
}

// wake has Run sweep the list soon.
func (e *Edits) wake() { signal(e.added) }

// admitHere adds a change that is admitted. Run tells other replicas of it as soon as that is possible.
func (e *Edits) admitHere(c Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) >= maxKnown {
		e.options.Log.Error(errFull, "Others cannot be judged with a change that is admitted all the same", "change", c.Edit.Subject())
		return
	}
	e.insert(&pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit}, at: time.Now(),
		own: &own{admitted: true, confirms: c.Confirms, done: c.Done},
	})
}

// AddUnconditionally adds a change that is admitted without a verdict. It is shared with other
// replicas if that is possible before ctx ends.
func (e *Edits) AddUnconditionally(ctx context.Context, c Change) {
	view, err := e.View(ctx)
	for err == nil && view.shared {
		if err = e.Add(ctx, view, c); err == nil {
			return
		}
		if errors.Is(err, ErrChanged) && wait(ctx) == nil {
			view, err = e.View(ctx)
		}
	}
	e.admitHere(c)
}
