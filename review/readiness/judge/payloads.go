package judge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

const (
	// ReadingTime is how long a reading may take.
	ReadingTime = 2 * time.Minute
	// tooMuchTime is how long an image counts as larger than the limits. It is not for good: content beyond a
	// limit was not compared with its digest, and may be a fault of a registry, which gets mended.
	tooMuchTime = time.Hour
	// tooSlowTime is how long a payload is kept whose layers below did not arrive within ReadingTime, over a slow link or from
	// a registry that is slow just now.
	tooSlowTime = 10 * time.Minute
	// maxReadings are those of the release that is judged, and of the one that runs.
	maxReadings = 2
)

// Payloads remember what was read of the release images that were asked for last. The zero value is ready. They are not safe for
// concurrent use.
type Payloads struct{ last []reading }

// A payloadKey names a manifest, by its digest, of the release image that image refers to. The place that it is read
// from does not matter, as every byte is compared with its digest.
type payloadKey struct{ image, instance string }

// A reading is the result of one.
type reading struct {
	key     payloadKey
	payload *release.Payload
	err     error
	until   time.Time // when it no longer counts; zero for never
}

// get returns the payload of key, which read reads unless it is remembered. An image by which read panics is an error.
func (p *Payloads) get(ctx context.Context, key payloadKey, read func(context.Context) (*release.Payload, error)) (*release.Payload, error) {
	if p == nil {
		return read(ctx)
	}
	for _, r := range p.last {
		if r.key == key && (r.until.IsZero() || time.Now().Before(r.until)) {
			return r.payload, r.err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, ReadingTime)
	defer cancel()
	r := reading{key: key}
	r.err = panics.Recovered(func() (err error) {
		r.payload, err = read(ctx)
		return err
	})
	p.last = slices.DeleteFunc(p.last, func(old reading) bool { return old.key == key })
	if r.holds(errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		p.last = append(p.last, r)
		p.last = p.last[max(0, len(p.last)-maxReadings):]
	}
	return r.payload, r.err
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
