package recent

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Claim is the right of a change that waits for earlier ones to be over: senders of a lower
// rank may not have anything admitted meanwhile that conflicts with it, and so cannot keep it waiting
// for ever. It is a matter of turns alone: that two changes conflict is for Add to find out, and
// nothing is unsafe if a claim is lost or ignored.
type Claim struct {
	edits *Edits
	p     *pending
}

// MayClaim reports whether the sender of ctx may have a Claim. Without Run the outcome of other
// changes would not be noticed.
func (e *Edits) MayClaim(ctx context.Context) bool {
	e.mu.Lock()
	running := e.running
	e.mu.Unlock()
	return running && e.rankOf(ctx) < rankSuspect
}

// rankOf returns the rank of the sender of ctx.
func (e *Edits) rankOf(ctx context.Context) int { return e.Rank(fairshare.ClaimantOf(ctx).Name) }

// Rank returns the rank of a sender for package fairshare.
func (e *Edits) Rank(sender string) int { return e.senders.rank(sender) }

// Knows reports whether a sender is known.
func (e *Edits) Knows(sender string) bool { return e.Rank(sender) == RankKnown }

// Vouch takes note that a sender is an API server, as it has proved.
func (e *Edits) Vouch(sender string) { e.senders.vouch(sender) }

// Claim makes a Claim for an edit that the sender of ctx asks for. The caller withdraws it.
func (e *Edits) Claim(ctx context.Context, edit mirrors.Edit) *Claim {
	p := &pending{entry: entry{id: rand.Text(), by: e.instance, edit: edit, claim: e.rankOf(ctx)}, at: time.Now(), own: new(own)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = append(e.pending, p)
	e.claimed()
	return &Claim{e, p}
}

// claimed has Run tell other replicas of claims. It is called with the lock held.
func (e *Edits) claimed() {
	select {
	case e.claims <- struct{}{}:
	default:
	}
}

// Withdraw ends the claim.
func (c *Claim) Withdraw() {
	c.edits.remove(c.p)
	c.edits.mu.Lock()
	defer c.edits.mu.Unlock()
	c.edits.claimed()
}

// Await waits until one of the edits in view, with which the change was judged, is over, or ctx ends.
// It may be over already: judging takes time.
func (c *Claim) Await(ctx context.Context, view View) error {
	if err := wait(ctx); err != nil { // each time is a review
		return err
	}
	for {
		over, news := c.isOver(view)
		if over {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("waiting for changes that were admitted a moment ago: %w", ctx.Err())
		}
	}
}

// isOver reports whether one of the edits in view that c has to wait for is over, and returns a channel
// that is closed when that may have changed.
func (c *Claim) isOver(view View) (over bool, news <-chan struct{}) {
	e := c.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	over = slices.ContainsFunc(view.pending, func(p *pending) bool {
		return p.claim < c.p.claim && !slices.Contains(e.pending, p)
	})
	return over, e.news
}

// Claims returns the waiting edits of other objects than edit's whose senders have a higher rank than
// that of ctx.
func (v View) Claims(ctx context.Context, edit mirrors.Edit) []mirrors.Edit {
	e := v.edits
	rank := e.rankOf(ctx)
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
