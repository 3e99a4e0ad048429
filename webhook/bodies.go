package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fair"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

const (
	// maxBody is a little more than the largest review: two objects of 3 MiB at most
	// (MaxRequestBodyBytes in k8s.io/apiserver, pkg/server/config.go), and what the
	// request says about itself.
	maxBody = 8 << 20
	// smallBody is several times what the review of a mirror set has that a person writes.
	smallBody = 64 << 10
	// leastBody is the least size that a review counts with, for its memory besides the body.
	leastBody = 16 << 10
	// maxSmall and maxLarge bound the bodies of all reviews under way, the small ones of either kind
	// of sender and the others. What is decoded of a body takes up to a few times its size, and the
	// garbage of it half as much again: with these, some 170 MB at worst (make campaign).
	maxSmall = 2 << 20
	maxLarge = maxBody
	// bodyTime is how long a body may take to arrive. An API server sends it in one go; a client that
	// trickles gets less time than a review takes.
	bodyTime = 5 * time.Second
	// refusalTime is kept back for telling an API server that there was no room, so that it can try
	// again.
	refusalTime = 500 * time.Millisecond
)

// Bodies bound the memory of the reviews under way, by the bytes of their bodies from reading
// them to the answer, or to the end of a decision that comes too late for one. Large ones do not keep
// small ones waiting, nor do strangers' keep those of senders with a change that was seen in force.
// Within each of these groups, senders take turns.
type bodies struct{ known, small, large *fair.Queue }

func newBodies() *bodies { return &bodies{fair.New(maxSmall), fair.New(maxSmall), fair.New(maxLarge)} }

// A body is the body of a request. It has to be released once it is not needed any more.
type body struct {
	text    []byte
	release func()
}

// read reads the body of r by the time its context ends. It is read in any case, if only to be
// thrown away: else the server hangs up, and the API server may fail to send before it reads
// what was answered.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body, *refusal) {
	size := r.ContentLength
	if size > maxBody {
		discard(w, r)
		return body{}, tooLargeRefusal()
	}
	queue, room := b.small, max(size, leastBody)
	switch {
	case size < 0:
		queue, room = b.large, maxBody
	case size > smallBody:
		queue = b.large
	case fair.ClaimantOf(r.Context()).Rank == recent.RankKnown:
		queue = b.known
	}
	if err := acquire(r.Context(), queue, room); err != nil {
		discard(w, r)
		return body{}, notNow(errCrowded)
	}
	text, refused := readBody(w, r, room)
	if refused != nil {
		queue.Release(room)
		return body{}, refused
	}
	return body{text, func() { queue.Release(room) }}, nil
}

var errCrowded = errors.New("too many reviews are under way")

// acquire waits for room until there is just time left to say that there is none.
func acquire(ctx context.Context, queue *fair.Queue, room int64) error {
	ctx, cancel := review.KeepBack(ctx, refusalTime)
	defer cancel()
	return queue.Acquire(ctx, 0, room)
}

// readBody reads a body of at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *refusal) {
	setReadDeadline(w, r)
	text := make([]byte, 0, most)
	if r.ContentLength < 0 {
		text = nil // it grows as the bytes come
	}
	text, err := readInto(text, http.MaxBytesReader(w, r.Body, most))
	if errors.As(err, new(*http.MaxBytesError)) {
		discard(w, r)
		return nil, tooLargeRefusal()
	}
	if err != nil {
		return nil, refusef(http.StatusBadRequest, unreadable, "reading the review: %v", err)
	}
	// Left in place it would pass while the server listens for a client that hangs
	// up, and be taken for one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return text, nil
}

// readInto is io.ReadAll with room for what is expected, so that nothing is copied.
func readInto(text []byte, from io.Reader) ([]byte, error) {
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// discard reads the rest of a body, up to a little more than the largest one has.
func discard(w http.ResponseWriter, r *http.Request) {
	setReadDeadline(w, r)
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 2*maxBody)) // there is an answer in any case
}

// setReadDeadline ends the reading of r in time. A ResponseWriter without deadlines is not a
// server's.
func setReadDeadline(w http.ResponseWriter, r *http.Request) {
	end := time.Now().Add(bodyTime)
	if deadline, ok := r.Context().Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	_ = http.NewResponseController(w).SetReadDeadline(end)
}

func tooLargeRefusal() *refusal {
	return refusef(http.StatusRequestEntityTooLarge, tooLarge, "the review has more than %d bytes, which is the limit", maxBody)
}
