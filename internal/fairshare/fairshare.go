// Package fairshare shares a bounded amount of something among those who want some of it.
//
//	ctx = fairshare.WithClaimant(ctx, fairshare.Claimant{Name: "10.0.0.1"})
//	queue := fairshare.New(8 << 20)
//	if err := queue.Acquire(ctx, 0, size); err != nil {
//		return err // ctx has ended
//	}
//	defer queue.Release(size)
//
// Claims are served in turn: by the rank of the claimant first, then by that of the claim, then one
// claim of each claimant after the other. So a claimant gets no more by asking more often.
package fairshare

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
)

// A Claimant is the party for which something is done, such as the sender of a request.
type Claimant struct {
	// Name tells claimants apart.
	Name string
	// Rank puts claimants before those of a higher one.
	Rank int
}

type claimantKey struct{}

// WithClaimant returns a context for work on behalf of c.
func WithClaimant(ctx context.Context, c Claimant) context.Context {
	return context.WithValue(ctx, claimantKey{}, c)
}

// ClaimantOf returns for whom something is done, the zero Claimant if that is not known.
func ClaimantOf(ctx context.Context) Claimant {
	c, _ := ctx.Value(claimantKey{}).(Claimant)
	return c
}

// First returns a context whose claims come before those of all claimants: for one that holds what they wait for.
func First(ctx context.Context) context.Context {
	return WithClaimant(ctx, Claimant{Name: ClaimantOf(ctx).Name, Rank: math.MinInt})
}

// A Queue shares an amount. It is safe for concurrent use.
type Queue struct {
	each, all int // how many claims of one claimant may wait, and how many in all; 0 for any number

	mu      sync.Mutex
	free    int64
	waiting []*waiter // in the order in which they are granted
}

// A waiter is a claim that waits. Among those of one rank, each claimant has one in each round.
type waiter struct {
	by           Claimant
	claim, round int
	amount       int64
	granted      chan struct{} // closed when it is
}

// compareRank compares the ranks of the claimants and, among equals, those of the claims.
func (w *waiter) compareRank(other *waiter) int {
	return cmp.Or(cmp.Compare(w.by.Rank, other.by.Rank), cmp.Compare(w.claim, other.claim))
}

// New returns a Queue that shares an amount.
func New(amount int64) *Queue { return &Queue{free: amount} }

// NewBounded returns a Queue for which no more than all claims wait, and no more than each of one claimant.
func NewBounded(amount int64, each, all int) *Queue {
	return &Queue{free: amount, each: each, all: all}
}

// ErrCrowded is returned by Acquire at once if as many claims wait as may.
var ErrCrowded = errors.New("too many wait already")

// Acquire waits until the claimant of ctx is granted an amount, or ctx ends, whose error it
// returns. Among claimants of one rank, claims of a lower rank go first. More than there is in all
// is never granted.
func (q *Queue) Acquire(ctx context.Context, claim int, amount int64) error {
	w := &waiter{by: ClaimantOf(ctx), claim: claim, amount: amount, granted: make(chan struct{})}
	if !q.enqueue(w) {
		return ErrCrowded
	}
	select {
	case <-w.granted: // also to a claimant without any time left
		return nil
	default:
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	if !q.leave(w) {
		q.Release(amount) // it was granted at the same moment
	}
	return ctx.Err()
}

// Release gives back what was acquired.
func (q *Queue) Release(amount int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += amount
	q.grant()
}

// Contended reports whether a claim waits of a claimant that does not come after that of ctx.
func (q *Queue) Contended(ctx context.Context) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && q.waiting[0].by.Rank <= ClaimantOf(ctx).Rank
}

// enqueue grants w, or has it wait. It reports false if as many wait already as may.
func (q *Queue) enqueue(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	own, at := q.place(w)
	q.waiting = slices.Insert(q.waiting, at, w)
	q.grant()
	n := own + 1
	if q.all > 0 && slices.Contains(q.waiting, w) && (n > q.each || len(q.waiting) > q.all) {
		q.waiting = slices.Delete(q.waiting, at, at+1) // nothing was granted
		return false
	}
	return true
}

// place sets the round of w: the one after the last of its claimant's, or else the one of those that are granted next.
// It returns how many claims of the claimant wait, and the index at which w is to.
func (q *Queue) place(w *waiter) (own, at int) {
	isPeer := func(other *waiter) bool { return w.compareRank(other) == 0 }
	if next := slices.IndexFunc(q.waiting, isPeer); next >= 0 {
		w.round = q.waiting[next].round
	}
	for _, other := range q.waiting {
		if isPeer(other) && other.by.Name == w.by.Name {
			own, w.round = own+1, other.round+1
		}
	}
	at = slices.IndexFunc(q.waiting, func(other *waiter) bool {
		return cmp.Or(other.compareRank(w), cmp.Compare(other.round, w.round)) > 0
	})
	if at < 0 {
		at = len(q.waiting)
	}
	return own, at
}

// leave has w wait no longer, and reports false if it was granted before.
func (q *Queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.grant() // it may have been in the way
	return true
}

// grant grants the claims that it can, in turn. A claim that is next and wants more than is free waits
// until there is enough, and so do all after it: else small claims would keep a large one out.
func (q *Queue) grant() {
	for len(q.waiting) > 0 && q.waiting[0].amount <= q.free {
		q.free -= q.waiting[0].amount
		close(q.waiting[0].granted)
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
}
