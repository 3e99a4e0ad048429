package review

import (
	"context"
	"slices"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Limiter bounds how many reviews compute at once. Running more of them than there are
// processors finishes none sooner, and each holds a plan with every image that it reroutes in
// memory: 200 at once of 2,000 images took 700 MB together.
//
// A review gives up its slot while it waits for registries. Afterwards it gets one before any
// review that has not started, so that reviews that were started are finished first.
type Limiter struct {
	mu      sync.Mutex
	free    int
	waiting [2][]chan struct{} // by priority, in the order in which they came
}

// The priorities of those that wait for a slot, the highest first.
const (
	resuming = iota
	starting
)

// NewLimiter returns a Limiter that lets n reviews compute at once.
func NewLimiter(n int) *Limiter { return &Limiter{free: n} }

// acquire waits for a slot, until ctx ends. A nil Limiter does not bound anything.
func (l *Limiter) acquire(ctx context.Context, priority int) error {
	if l == nil {
		return nil
	}
	slot := l.enqueue(priority)
	if slot == nil {
		return nil
	}
	select {
	case <-slot:
		return nil
	case <-ctx.Done():
	}
	if !l.dequeue(slot, priority) {
		l.release() // it came at the same moment
	}
	return ctx.Err()
}

// enqueue takes a free slot and returns nil; or it returns a channel that is closed when
// the caller gets one.
func (l *Limiter) enqueue(priority int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free > 0 {
		l.free--
		return nil
	}
	slot := make(chan struct{})
	l.waiting[priority] = append(l.waiting[priority], slot)
	return slot
}

// dequeue stops waiting for slot, and reports false if it has come already.
func (l *Limiter) dequeue(slot chan struct{}, priority int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting[priority], slot)
	if i >= 0 {
		l.waiting[priority] = slices.Delete(l.waiting[priority], i, i+1)
	}
	return i >= 0
}

// release gives a slot back, to the first of those that wait.
func (l *Limiter) release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for priority, waiting := range l.waiting {
		if len(waiting) > 0 {
			l.waiting[priority] = waiting[1:]
			close(waiting[0])
			return
		}
	}
	l.free++
}

// contended reports whether somebody waits for a slot.
func (l *Limiter) contended() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting[resuming]) > 0 || len(l.waiting[starting]) > 0
}

// yielding returns r for the holder of a slot: the slot is given up while r is asked, and
// acquired again afterwards, even if ctx has ended, as what is known by then still has to be
// judged.
func (l *Limiter) yielding(r Registries) Registries {
	if l == nil {
		return r
	}
	return yieldingRegistries{l, r}
}

type yieldingRegistries struct {
	limiter    *Limiter
	registries Registries
}

// Presence implements Registries.
func (y yieldingRegistries) Presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	return y.ask(ctx, locs, y.registries.Presence)
}

// Recall implements RecallSource. Registries that are none remember nothing.
func (y yieldingRegistries) Recall(ctx context.Context, locs []mirrors.Location) policy.Facts {
	if r, ok := y.registries.(RecallSource); ok {
		return y.ask(ctx, locs, r.Recall)
	}
	return y.Presence(ctx, locs)
}

// Renew implements RecallSource.
func (y yieldingRegistries) Renew(ctx context.Context, locs []mirrors.Location) policy.Facts {
	if r, ok := y.registries.(RecallSource); ok {
		return y.ask(ctx, locs, r.Renew)
	}
	return y.Presence(ctx, locs)
}

func (y yieldingRegistries) ask(ctx context.Context, locs []mirrors.Location, by RegistriesFunc) policy.Facts {
	y.limiter.release()
	defer func() { _ = y.limiter.acquire(context.WithoutCancel(ctx), resuming) }()
	return by(ctx, locs)
}
