package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/layers"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

const (
	// maxPayloads bounds the payloads that are remembered: a cluster asks about the next release, and about a few
	// more while it chooses. Real ones have some 50 KB each, and none more than its files (package release).
	maxPayloads = 8
	// maxReadings bounds the release images that are read at once, each of which may take as much memory as
	// package release scans, and maxWaiting those that wait for one of them.
	maxReadings, maxWaiting = 2, 16
	// readingTime is how long a reading may take, whoever waits for it.
	readingTime = 2 * time.Minute
	// tooMuchTime is how long an image counts as one that has more than is read of it. It is not for good: what is
	// beyond a limit was not compared with its digest, and may be a registry's fault that is mended.
	tooMuchTime = time.Hour
	// tooSlowTime is how long a payload is kept of which the layers below did not come within readingTime, over a slow link or
	// from a registry that is slow just now.
	tooSlowTime = 10 * time.Minute
)

// Payloads remember what was read of release images. Callers who want the same share one reading, which goes on when
// they leave, for the next one to find. They are safe for concurrent use, and must be closed.
type Payloads struct {
	ctx     context.Context // of readings, which belong to no single caller
	end     context.CancelFunc
	slots   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	held    []*reading // that have ended, the last used one last
	reading map[payloadKey]*reading
}

// A payloadKey names what is read: a manifest, by its digest, of the release image that image is the reference of. The
// place that it is read from does not matter, as every byte is compared with its digest.
type payloadKey struct{ image, instance string }

// A reading is one that is under way, or has ended.
type reading struct {
	key     payloadKey
	done    chan struct{} // closed at its end
	payload *release.Payload
	err     error
	until   time.Time // it counts, once it is held; zero for ever
}

// NewPayloads returns Payloads without any.
func NewPayloads() *Payloads {
	ctx, end := context.WithCancel(context.Background()) // ended by Close
	return &Payloads{ctx: ctx, end: end, slots: make(chan struct{}, maxReadings), reading: map[payloadKey]*reading{}}
}

// Close ends the readings under way, and waits for them.
func (p *Payloads) Close() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.running.Wait()
}

// get returns the payload of key, which read reads unless it is remembered. The error is that of ctx, or says that it
// is read already and not there yet, if ctx ends first.
func (p *Payloads) get(ctx context.Context, key payloadKey, read func(context.Context) (*release.Payload, error)) (*release.Payload, error) {
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

var (
	errStillReading = errors.New("it is still being read")
	errManyReadings = errors.New("too many release images are being read at the moment")
)

// start returns the reading of key, which may have ended.
func (p *Payloads) start(key payloadKey, read func(context.Context) (*release.Payload, error)) (*reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(r *reading) bool { return !r.until.IsZero() && !time.Now().Before(r.until) })
	if i := slices.IndexFunc(p.held, func(r *reading) bool { return r.key == key }); i >= 0 {
		r := p.held[i]
		p.held = append(slices.Delete(p.held, i, i+1), r)
		return r, nil
	}
	if r := p.reading[key]; r != nil {
		return r, nil
	}
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	if len(p.reading) >= maxReadings+maxWaiting {
		return nil, errManyReadings
	}
	r := &reading{key: key, done: make(chan struct{})}
	p.reading[key] = r
	p.running.Go(func() { p.run(r, read) })
	return r, nil
}

// lasts reports whether what has been read counts for those who come later, and sets until when. Reading it again would not tell
// more if all of it was read, or if what could not be read is what a digest names. Other errors are those of a registry, and of
// today. Where timed out is set, the reading had no time for all layers, and its next would not either.
func (r *reading) lasts(timedOut bool) bool {
	unread := r.err
	if unread == nil {
		unread = r.payload.Unread
	}
	switch {
	case unread == nil, errors.Is(unread, release.ErrNoRelease), errors.As(unread, new(*layers.Fault)):
		return true
	case errors.Is(unread, layers.ErrTooMuch):
		r.until = time.Now().Add(tooMuchTime)
		return true
	case timedOut && r.err == nil:
		r.until = time.Now().Add(tooSlowTime)
		return true
	default:
		return false
	}
}

// run reads what r is for, once there is a slot.
func (p *Payloads) run(r *reading, read func(context.Context) (*release.Payload, error)) {
	ctx, cancel := context.WithTimeout(p.ctx, readingTime)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		r.err = panics.Recovered(func() (err error) {
			r.payload, err = read(ctx)
			return err
		})
		<-p.slots
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	p.mu.Lock()
	delete(p.reading, r.key)
	if r.lasts(errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		p.held = append(p.held, r)
		p.held = slices.Delete(p.held, 0, max(0, len(p.held)-maxPayloads))
	}
	p.mu.Unlock()
	close(r.done)
}
