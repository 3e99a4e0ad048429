package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

// soon is how long the Reflector waits before it starts again, even if a watch was cut as soon as
// it had begun. All longer delays are those of retries, which can be cut short.
var soon = wait.Backoff{Duration: 50 * time.Millisecond, Jitter: 0.5}

// forgetFailures is how long after the last failure the delays begin from the start.
const forgetFailures = 2 * time.Minute

var errCut = errors.New("the watch ended before its time")

// retries are the delays between attempts to read a source. The zero value is ready for use.
type retries struct {
	mu     sync.Mutex
	delays wait.Backoff // the rest of Source.Retry
	failed time.Time    // when the last attempt failed; zero if none did
	listed time.Time    // when all was listed last
	cuts   int          // how often that was because a watch was cut
	broken bool         // whether an attempt has failed since
	due    time.Time    // when the next attempt is
	hurry  chan struct{}
}

// step takes note of a failure, after which the next attempt has to wait.
func (r *retries) step(delays wait.Backoff) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	r.advance(delays)
}

func (r *retries) advance(delays wait.Backoff) {
	now := time.Now()
	if r.failed.IsZero() || now.Sub(r.failed) >= forgetFailures {
		r.delays = delays
	}
	r.failed = now
	r.due = now.Add(r.delays.Step())
}

// listing takes note that all is to be listed. Unless an attempt failed, it is because a watch ended
// before its time, which is a failure as well from the second time on: it reports whether that is so.
func (r *retries) listing(delays wait.Backoff) (failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case r.listed.IsZero(), now.Sub(r.listed) >= forgetFailures:
		r.cuts = 0
	case !r.broken:
		r.cuts++
	}
	r.listed, r.broken = now, false
	if r.cuts > 1 {
		r.advance(delays)
	}
	return r.cuts > 1
}

// wait waits until the next attempt is due, a caller is in a hurry, or ctx ends.
func (r *retries) wait(ctx context.Context) {
	r.mu.Lock()
	left := time.Until(r.due)
	hurry := make(chan struct{})
	r.hurry = hurry
	r.mu.Unlock()
	_ = pause.For(ctx, left, hurry)
}

// Hurry ends the wait for the next attempt to read the source, if it waits.
func (s *Source) Hurry() {
	r := &s.retries
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hurry != nil {
		close(r.hurry)
		r.hurry, r.due = nil, time.Time{}
	}
}
