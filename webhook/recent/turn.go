package recent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Turn is that of a change to be decided on: within this process, one change is at a time.
type Turn struct {
	edits *Edits
	edit  mirrors.Edit
	seat  *seat  // nil for a dry run
	claim *claim // nil for none
}

// Turn waits for the turn of an edit that the sender of ctx asks for, or until ctx ends. The caller calls End. A dry
// run, after which nothing is added, needs no seat. All others wait for theirs first, so that a sender whose changes
// are never stored slows down nobody else.
func (e *Edits) Turn(ctx context.Context, edit mirrors.Edit, dryRun bool) (_ *Turn, err error) {
	t := &Turn{edits: e, edit: edit}
	if !dryRun {
		if t.seat, err = e.takeSeat(ctx, false); err != nil {
			return nil, err
		}
	}
	if err := t.acquire(ctx); err != nil {
		t.seat.leave()
		return nil, err
	}
	return t, nil
}

func (t *Turn) acquire(ctx context.Context) error {
	if err := t.edits.slot.Acquire(ctx, 0, 1); err != nil {
		return fmt.Errorf("waiting for another change to be decided: %w", err)
	}
	return nil
}

// End gives the turn back.
func (t *Turn) End() {
	t.claim.withdraw()
	t.edits.slot.Release(1)
	t.seat.leave()
}

// Yield waits for the outcome of the changes in view that have this one refused, until waiting ends, and then for its
// turn again: once they are in force the refusal is final, and if they never are, there is nothing to refuse. Others
// are decided on and admitted meanwhile, but for those whose turn is later and that would get in its way.
func (t *Turn) Yield(ctx, waiting context.Context, view View) error {
	if !t.edits.mayClaim(ctx) {
		return errors.New("earlier changes of this sender were never stored, so this one does not wait")
	}
	if t.claim == nil {
		if t.claim = t.edits.newClaim(ctx, t.edit); t.claim == nil {
			return errors.New("too many changes wait already, so this one does not")
		}
	}
	t.edits.slot.Release(1)
	t.seat.leave()
	err := t.claim.await(waiting, view)
	if err == nil {
		t.seat, err = t.edits.takeSeat(ctx, true)
	}
	if acquireErr := t.acquire(context.WithoutCancel(ctx)); err == nil {
		err = acquireErr
	}
	return err
}

// A claim is the right of a change that waits for earlier ones to be over: senders of a lower
// rank may not have anything admitted meanwhile that conflicts with it, and so cannot keep it waiting
// for ever. It is a matter of turns alone: that two changes conflict is for Add to find out, and
// nothing is unsafe if a claim is lost or ignored.
type claim struct {
	edits *Edits
	p     *pending
}

// mayClaim reports whether the sender of ctx may have a claim. Without Run the outcome of other
// changes would not be noticed.
func (e *Edits) mayClaim(ctx context.Context) bool {
	e.mu.Lock()
	running := e.running
	e.mu.Unlock()
	return running && e.rankOf(ctx) < rankSuspect
}

// newClaim makes a claim for an edit that the sender of ctx asks for. The caller withdraws it. It is nil if there is no room: claims
// have places in the list, those of all senders that are not known no more than maxUnknown.
func (e *Edits) newClaim(ctx context.Context, edit mirrors.Edit) *claim {
	p := &pending{entry: entry{id: rand.Text(), by: e.instance, edit: edit, claim: e.rankOf(ctx)}, at: time.Now(), own: new(own)}
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := 0
	for _, other := range e.pending {
		if other.claim > RankKnown {
			waiting++
		}
	}
	if p.claim > RankKnown && waiting >= maxUnknown {
		return nil
	}
	e.pending = append(e.pending, p)
	signal(e.urgent) // for other replicas
	return &claim{e, p}
}

// withdraw ends the claim. It may be called of nil.
func (c *claim) withdraw() {
	if c != nil {
		c.edits.remove(c.p)
		signal(c.edits.urgent)
	}
}

// await waits until one of the edits in view, with which the change was judged, is over, or ctx ends.
// It may be over already: judging takes time.
func (c *claim) await(ctx context.Context, view View) error {
	if err := wait(ctx); err != nil { // each time is a review
		return err
	}
	for {
		over, news := c.isOver(view)
		if over {
			return nil
		}
		if err := pause.For(ctx, MaxStoringTime, news); err != nil {
			return fmt.Errorf("waiting for changes that were admitted a moment ago: %w", err)
		}
	}
}

// isOver reports whether one of the edits in view that c has to wait for is over, and returns a channel
// that is closed when that may have changed.
func (c *claim) isOver(view View) (over bool, news <-chan struct{}) {
	e := c.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	over = slices.ContainsFunc(view.pending, func(p *pending) bool {
		return p.claim < c.p.claim && !slices.Contains(e.pending, p)
	})
	return over, e.news
}
