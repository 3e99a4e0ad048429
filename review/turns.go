package review

import (
	"context"
	"slices"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Limiter bound how many reviews compute at once. More of them than there are processors
// end none sooner, and each keeps a plan for every image that it reroutes in memory
// meanwhile: 200 at once of 2,000 images had 700 MB together.
//
// A review gives its turn up while it waits for registries. It gets one again before a
// review that has not begun, so that what is begun comes to its end.
type Limiter struct {
	mu    sync.Mutex
	free  int
	queue [2][]chan struct{} // by when, the first come first
}

// When in its course a review wants a turn.
const (
	again = iota
	atFirst
)

// NewLimiter lets n reviews compute at once.
func NewLimiter(n int) *Limiter { return &Limiter{free: n} }

// take waits for a turn, until ctx ends. Nil Turns do not bound anything.
func (t *Limiter) take(ctx context.Context, when int) error {
	if t == nil {
		return nil
	}
	mine := t.enqueue(when)
	if mine == nil {
		return nil
	}
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	if !t.leave(mine, when) {
		t.give() // it came at the same moment
	}
	return ctx.Err()
}

// enqueue returns what is closed when the turn has come, nil if it has.
func (t *Limiter) enqueue(when int) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		return nil
	}
	mine := make(chan struct{})
	t.queue[when] = append(t.queue[when], mine)
	return mine
}

// leave reports whether mine was still queued.
func (t *Limiter) leave(mine chan struct{}, when int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue[when], mine)
	if i >= 0 {
		t.queue[when] = slices.Delete(t.queue[when], i, i+1)
	}
	return i >= 0
}

// give ends a turn.
func (t *Limiter) give() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for when, queue := range t.queue {
		if len(queue) > 0 {
			t.queue[when] = queue[1:]
			close(queue[0])
			return
		}
	}
	t.free++
}

// between asks r without a turn, and has one again afterwards. It waits for it though
// ctx has ended: what is known by then is still to be judged.
func (t *Limiter) between(r Registries) Registries {
	if t == nil {
		return r
	}
	return betweenTurns{t, r}
}

// A betweenTurns is Registries that are asked without a turn.
type betweenTurns struct {
	turns      *Limiter
	registries Registries
}

func (b betweenTurns) Presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	return b.ask(ctx, locs, b.registries.Presence)
}

// Recall implements Recaller. Without one behind it, nothing is remembered.
func (b betweenTurns) Recall(ctx context.Context, locs []mirrors.Location) policy.Facts {
	if r, ok := b.registries.(Recaller); ok {
		return b.ask(ctx, locs, r.Recall)
	}
	return b.Presence(ctx, locs)
}

func (b betweenTurns) ask(ctx context.Context, locs []mirrors.Location, by RegistriesFunc) policy.Facts {
	b.turns.give()
	defer func() { _ = b.turns.take(context.WithoutCancel(ctx), again) }()
	return by(ctx, locs)
}
