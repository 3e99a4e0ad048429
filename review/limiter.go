package review

import (
	"context"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/internal/memory"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Limiter bounds how many reviews compute at once. Running more of them than there are processors
// finishes none sooner, and each holds a plan with every image that it reroutes in memory: 200 at once
// of 2,000 images took 700 MB together.
//
// A review gives up its slot while it waits for registries. Afterwards it gets one before any
// review that has not started, so that reviews that were started are finished first. Among those
// that have not, each sender has its turn.
//
// Reviews begin in the first half of their time, or not at all: computing does not stop at their
// deadline, and takes long on a machine that is busy enough to keep them waiting.
//
// Reviews of large edits take seconds, and have slots of their own in order not to delay others.
//
// Reviews of many images go one at a time, also while they wait for registries: a plan of 100,000 images takes 60 MB, and
// their facts and findings as much again. Smaller ones go at once while they have no more images together. So their
// memory does not depend on the number of processors.
type Limiter struct{ small, large, some, wide slots }

// slots are those for which reviews of one size wait.
type slots struct{ queue *fairshare.Queue }

// The ranks of those that wait for a slot, the first first.
const (
	resuming = iota
	starting
)

// largeEdit is the number of entries from which on an edit is large: more than most people ever
// write. Resolving a thousand takes some 100 ms.
const largeEdit = 200

// NewLimiter returns a Limiter that lets n reviews compute at once, and half as many of large
// edits besides.
func NewLimiter(n int) *Limiter {
	return &Limiter{slots{fairshare.New(int64(n))}, slots{fairshare.New(int64(max(1, n/2)))}, slots{fairshare.New(wideReview)}, slots{fairshare.New(1)}}
}

// slotsFor returns the slots for an edit. Those of a nil Limiter do not bound anything.
func (l *Limiter) slotsFor(edit mirrors.Edit) slots {
	switch {
	case l == nil:
		return slots{}
	case len(edit.Apply(mirrors.Set{}).Entries()) >= largeEdit:
		return l.large
	default:
		return l.small
	}
}

// widen waits until the holder of a slot may make a plan for so many images, until ctx ends, and returns what ends
// that. The slot is given up meanwhile, and held again afterwards, in any case.
func (l *Limiter) widen(ctx context.Context, slot slots, images int) (done func(), err error) {
	if l == nil || images <= fewImages {
		return func() {}, nil
	}
	of, n, spared := l.some, int64(images), func() {}
	if images > wideReview {
		of, n = l.wide, 1
	}
	slot.release()
	err = of.acquireSome(ctx, starting, n)
	_ = slot.acquire(context.WithoutCancel(ctx), resuming)
	if err != nil {
		return nil, err
	}
	if images > wideReview {
		spared = memory.Spare()
	}
	return func() {
		spared()
		of.queue.Release(n)
	}, nil
}

const (
	// wideReview is a number of images whose plan takes more memory than a cluster of 100,000 pods.
	wideReview = 20_000
	// fewImages do not count: as many reviews of them as there are processors take less.
	fewImages = 500
)

// acquire waits for a slot, until ctx ends.
func (s slots) acquire(ctx context.Context, rank int) error { return s.acquireSome(ctx, rank, 1) }

// acquireSome waits for so many slots.
func (s slots) acquireSome(ctx context.Context, rank int, n int64) error {
	if s.queue == nil {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && rank == starting {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	return s.queue.Acquire(ctx, rank, n)
}

// release gives a slot back, to the first of those that wait.
func (s slots) release() {
	if s.queue != nil {
		s.queue.Release(1)
	}
}

// contended reports whether a review waits for a slot whose sender does not come after that of ctx.
func (s slots) contended(ctx context.Context) bool { return s.queue != nil && s.queue.Contended(ctx) }

// yielding returns r for the holder of a slot: the slot is given up while r is asked, and
// acquired again afterwards, even if ctx has ended, as the facts known by then still have to be judged.
func (s slots) yielding(r Registries) Registries {
	if s.queue == nil {
		return r
	}
	return yieldingRegistries{s, r}
}

type yieldingRegistries struct {
	slots slots
	Registries
}

// Presence implements Registries.
func (y yieldingRegistries) Presence(ctx context.Context, locs []mirrors.Location, fresh policy.Freshness) policy.Facts {
	y.slots.release()
	defer func() { _ = y.slots.acquire(context.WithoutCancel(ctx), resuming) }()
	return y.Registries.Presence(ctx, locs, fresh)
}
