package readiness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

const (
	// readingTime is how long a reading may take, however long its caller waits.
	readingTime = 2 * time.Minute
	// tooMuchTime is how long an image counts as larger than the limits. It is not for good: content beyond a
	// limit was not compared with its digest, and may be a fault of a registry, which gets mended.
	tooMuchTime = time.Hour
	// tooSlowTime is how long a payload is kept whose layers below did not arrive within readingTime, over a slow link or from
	// a registry that is slow just now.
	tooSlowTime = 10 * time.Minute
)

// A LastPayload remembers what was read of the release image that was asked for last. Its reading goes on when the caller leaves,
// for the next call to find; a call for another image ends it. It is safe for concurrent use, and must be closed.
type LastPayload struct {
	ctx     context.Context // of readings, which outlast their callers
	end     context.CancelFunc
	running sync.WaitGroup

	today *LastPayload // of the release that runs; nil in itself

	mu   sync.Mutex
	last *reading // nil for none
}

// A payloadKey names a manifest, by its digest, of the release image that image refers to. The place that it is read
// from does not matter, as every byte is compared with its digest.
type payloadKey struct{ image, instance string }

// A reading is one that is under way, or has ended.
type reading struct {
	key    payloadKey
	cancel context.CancelFunc
	done   chan struct{} // closed at its end, once the following is set

	payload *release.Payload
	err     error
	lasts   bool      // it counts for later calls
	until   time.Time // and no longer; zero for ever
}

// NewLastPayload returns a LastPayload that remembers none.
func NewLastPayload() *LastPayload {
	ctx, end := context.WithCancel(context.Background()) // ended by Close
	return &LastPayload{ctx: ctx, end: end, today: &LastPayload{ctx: ctx, end: end}}
}

// ofToday returns what remembers the release that runs, beside the one that is judged; nil if p is.
func (p *LastPayload) ofToday() *LastPayload {
	if p == nil {
		return nil
	}
	return p.today
}

// Close ends the reading under way, and waits for it.
func (p *LastPayload) Close() {
	for _, of := range []*LastPayload{p, p.today} {
		of.mu.Lock()
		of.end()
		of.mu.Unlock()
		of.running.Wait()
	}
}

// get returns the payload of key, which read reads unless it is remembered. The error is that of ctx, or says that it
// is read already and not there yet, if ctx ends first.
func (p *LastPayload) get(ctx context.Context, key payloadKey, read func(context.Context) (*release.Payload, error)) (*release.Payload, error) {
	if p == nil {
		return read(ctx)
	}
	r, err := p.start(key, read)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		return r.payload, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errStillReading, ctx.Err())
	}
}

var errStillReading = errors.New("it is still being read")

// start returns the reading of key, which may have ended.
func (p *LastPayload) start(key payloadKey, read func(context.Context) (*release.Payload, error)) (*reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		if p.last.key == key && p.last.counts() {
			return p.last, nil
		}
		p.last.cancel()
	}
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, readingTime)
	r := &reading{key: key, cancel: cancel, done: make(chan struct{})}
	p.last = r
	p.running.Go(func() {
		defer cancel()
		r.run(ctx, read)
	})
	return r, nil
}

// counts reports whether r is under way, or has found what still holds.
func (r *reading) counts() bool {
	select {
	case <-r.done:
		return r.lasts && (r.until.IsZero() || time.Now().Before(r.until))
	default:
		return true
	}
}

// run reads what r is for.
func (r *reading) run(ctx context.Context, read func(context.Context) (*release.Payload, error)) {
	defer close(r.done)
	r.err = panics.Recovered(func() (err error) {
		r.payload, err = read(ctx)
		return err
	})
	r.lasts = r.holds(errors.Is(ctx.Err(), context.DeadlineExceeded))
}

// holds reports whether what has been read counts for later calls, and sets until when. Reading it again would not tell more if
// all of it was read, or if a digest names the unreadable part. Other errors are those of a registry, and of today. Where timed
// out is set, the reading had no time for all layers, and its next would not either.
func (r *reading) holds(timedOut bool) bool {
	unread := r.err
	if unread == nil {
		unread = r.payload.Unread
	}
	switch {
	case unread == nil, errors.Is(unread, release.ErrNoRelease), errors.As(unread, new(*release.Fault)):
		return true
	case errors.Is(unread, release.ErrTooMuch):
		r.until = time.Now().Add(tooMuchTime)
		return true
	case timedOut && r.err == nil:
		r.until = time.Now().Add(tooSlowTime)
		return true
	default:
		return false
	}
}
