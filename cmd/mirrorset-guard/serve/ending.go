package serve

import (
	"context"
	"net/http"
	"time"
)

const (
	// quietBeforeEnd is for how long no review may have come when a replica stops listening: while
	// they still come, the Service has not let go of it everywhere, and a connection that is
	// refused is a change that is refused.
	quietBeforeEnd = time.Second
	// maxExtension is how much longer than --shutdown-delay a replica waits for that. With
	// shutdownTimeout it leaves room in terminationGracePeriodSeconds.
	maxExtension = 10 * time.Second
	// endTime is how long the guard waits for what still runs when it has stopped listening. A call
	// that hangs in a file system cannot be called off, and must not keep the process from ending.
	endTime = 5 * time.Second
)

// waitForEnd returns some time after ctx has ended, for the API server to learn of the end
// before the port is closed; or when serving ends, because a server has failed.
func (g *guard) waitForEnd(ctx, serving context.Context) {
	select {
	case <-serving.Done():
		return
	case <-ctx.Done():
	}
	g.ending.Store(true)
	g.log.Info("Ending", "drain", g.options.drain.String())
	latest := time.Now().Add(g.options.drain + maxExtension)
	for wait := g.options.drain; wait > 0 && time.Now().Before(latest); wait = g.untilQuiet() {
		select {
		case <-time.After(wait):
		case <-serving.Done():
			return
		}
	}
}

// untilQuiet returns how long no review may come from now on.
func (g *guard) untilQuiet() time.Duration {
	last := g.lastReview.Load()
	if last == nil {
		return 0
	}
	return min(quietBeforeEnd, g.options.drain) - time.Since(*last)
}

// noteReviews makes h note when it was called last.
func (g *guard) noteReviews(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.lastReview.Store(new(time.Now()))
		h.ServeHTTP(w, r)
	})
}

// awaitEnd returns the result of wait or, if that does not return within some time after listened was
// closed, logs so and returns nil.
func (g *guard) awaitEnd(wait func() error, listened <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	select {
	case err := <-ended:
		return err
	case <-listened:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(endTime):
		g.log.Info("Exiting although something still runs: a file system or the network hangs", "waited", endTime.String())
		return nil
	}
}

// close ends what asks registries and keeps what they said, as awaitEnd does.
func (g *guard) close() {
	now := make(chan struct{})
	close(now)
	_ = g.awaitEnd(func() error {
		g.world.Close()
		return nil
	}, now)
}
