package main

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
	// maxExtension is how much longer than --drain a replica waits for that. With
	// shutdownTimeout it leaves room in terminationGracePeriodSeconds.
	maxExtension = 10 * time.Second
)

// waitForEnd returns some time after ctx has ended, so that the API server learns of the end
// before the port is closed; or when serving ends, as a server has failed.
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
