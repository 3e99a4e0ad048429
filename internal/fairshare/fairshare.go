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
	"maps"
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
	lines   map[rank]*line
	waiting int
}

// A rank is that of the claimant and, among equals, that of the claim.
type rank struct{ claimant, claim int }

func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(r.claimant, other.claimant), cmp.Compare(r.claim, other.claim))
}

// A line holds the waiting claims of one rank.
type line struct {
	turns   []string // the claimants in their order, each once
	waiting map[string][]*waiter
}

type waiter struct {
	amount  int64
	granted chan struct{} // closed when it is
}

// New returns a Queue that shares an amount.
func New(amount int64) *Queue { return &Queue{free: amount, lines: map[rank]*line{}} }

// NewBounded returns a Queue for which no more than all claims wait, and no more than each of one claimant.
func NewBounded(amount int64, each, all int) *Queue {
	q := New(amount)
	q.each, q.all = each, all
	return q
}

// ErrCrowded is returned by Acquire at once if as many claims wait as may.
var ErrCrowded = errors.New("too many wait already")

// Acquire waits until the claimant of ctx is granted an amount, or ctx ends, whose error it
// returns. Among claimants of one rank, claims of a lower rank go first. More than there is in all
// is never granted.
func (q *Queue) Acquire(ctx context.Context, claim int, amount int64) error {
	by := ClaimantOf(ctx)
	of := rank{by.Rank, claim}
	w := q.enqueue(of, by.Name, amount)
	if w == nil {
		return ErrCrowded
	}
	select {
	case <-w.granted:
		return nil
	default:
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	if !q.leave(of, by.Name, w) {
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

// Contended reports whether a claim waits.
func (q *Queue) Contended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines) > 0
}

// enqueue returns nil if as many wait already as may.
func (q *Queue) enqueue(of rank, by string, amount int64) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{amount, make(chan struct{})}
	l := q.lines[of]
	if l == nil {
		l = &line{waiting: map[string][]*waiter{}}
		q.lines[of] = l
	}
	if len(l.waiting[by]) == 0 {
		l.turns = append(l.turns, by)
	}
	l.waiting[by] = append(l.waiting[by], w)
	q.waiting++
	q.grant()
	if n := len(l.waiting[by]); q.all > 0 && n > 0 && (n > q.each || q.waiting > q.all) {
		q.remove(of, by, n-1)
		return nil
	}
	return w
}

// leave takes w out of its line, and reports false if it was granted before.
func (q *Queue) leave(of rank, by string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[of]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiting[by], w)
	if i < 0 {
		return false
	}
	q.remove(of, by, i)
	q.grant() // it may have been in the way
	return true
}

// remove takes the claim of a claimant with an index out of its line.
func (q *Queue) remove(of rank, by string, i int) {
	l := q.lines[of]
	q.waiting--
	if l.waiting[by] = slices.Delete(l.waiting[by], i, i+1); len(l.waiting[by]) == 0 {
		delete(l.waiting, by)
		l.turns = slices.DeleteFunc(l.turns, func(other string) bool { return other == by })
	}
	q.prune(of)
}

// grant grants the claims that it can, in turn. A claim that is next and wants more than is free waits
// until there is enough, and so do all after it: else small claims would keep a large one out.
func (q *Queue) grant() {
	for len(q.lines) > 0 {
		first := slices.MinFunc(slices.Collect(maps.Keys(q.lines)), rank.compare)
		l := q.lines[first]
		by := l.turns[0]
		w := l.waiting[by][0]
		if w.amount > q.free {
			return
		}
		q.free -= w.amount
		q.waiting--
		close(w.granted)
		l.turns = l.turns[1:]
		if l.waiting[by] = l.waiting[by][1:]; len(l.waiting[by]) > 0 {
			l.turns = append(l.turns, by)
		} else {
			delete(l.waiting, by)
		}
		q.prune(first)
	}
}

func (q *Queue) prune(of rank) {
	if len(q.lines[of].turns) == 0 {
		delete(q.lines, of)
	}
}
