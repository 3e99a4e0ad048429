package review

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fair"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Limiter bounds how many reviews compute at once. Running more of them than there are
// processors finishes none sooner, and each holds a plan with every image that it reroutes in
// memory: 200 at once of 2,000 images took 700 MB together.
//
// A review gives up its slot while it waits for registries. Afterwards it gets one before any
// review that has not started, so that reviews that were started are finished first. Among those
// that have not, each sender has its turn.
type Limiter struct{ slots *fair.Queue }

// The ranks of those that wait for a slot, the first first.
const (
	resuming = iota
	starting
)

// NewLimiter returns a Limiter that lets n reviews compute at once.
func NewLimiter(n int) *Limiter { return &Limiter{fair.New(int64(n))} }

// acquire waits for a slot, until ctx ends. A nil Limiter does not bound anything.
func (l *Limiter) acquire(ctx context.Context, rank int) error {
	if l == nil {
		return nil
	}
	return l.slots.Acquire(ctx, rank, 1)
}

// release gives a slot back, to the first of those that wait.
func (l *Limiter) release() {
	if l != nil {
		l.slots.Release(1)
	}
}

// contended reports whether somebody waits for a slot.
func (l *Limiter) contended() bool { return l != nil && l.slots.Contended() }

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

func (y yieldingRegistries) ask(ctx context.Context, locs []mirrors.Location, by RegistriesFunc) policy.Facts {
	y.limiter.release()
	defer func() { _ = y.limiter.acquire(context.WithoutCancel(ctx), resuming) }()
	return by(ctx, locs)
}
