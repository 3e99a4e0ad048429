package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
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
	// likelyBody has come of a body that is likely to come as a whole: one that trickles takes no more memory.
	likelyBody = 512 << 10
	// leastBody is the least size that a review counts with, for its memory besides the body.
	leastBody = 16 << 10
	// maxSmall and maxLarge bound the bodies of all reviews under way of either kind of sender, the small
	// ones and the others. A decoded body takes up to a few times its size, and its garbage half as much
	// again: strangers take some 170 MB with these at worst (make campaign).
	maxSmall = 2 << 20
	maxLarge = maxBody
	// waitersEach and waitersAll bound the reviews that wait for room, with a small body each.
	waitersEach, waitersAll = 128, 256
	// firstByte is how long a body may take to begin to arrive, bodyTime how long to arrive. An API server
	// sends it in one go; a client that trickles gets less time than a review takes.
	firstByte, bodyTime = time.Second, 5 * time.Second
	// pause and pace bound how long the rest of a large body may take while others wait for their turn:
	// pause, and a second for each pace bytes that have come. An API server is as fast as its network.
	pause = 150 * time.Millisecond
	pace  = 8 << 20
	// refusalTime is kept back for telling an API server that there was no room, so that it can try
	// again.
	refusalTime = 500 * time.Millisecond
)

// Bodies bound the memory of the reviews under way, by the bytes of their bodies from when they have come
// until the answer, or to the end of a decision that comes too late for one. An announced body takes no room:
// any body may send as much as a small one has, bounded by the number of connections, and then large ones come
// one after the other. Large ones do not keep small ones waiting, nor do strangers' keep those of senders with
// a change that was seen in force. Within each of these groups, senders take turns.
type bodies struct{ known, others room }

// A room is that of a kind of sender. The holder of turn has a large body coming.
type room struct{ small, large, turn *fairshare.Queue }

func newRoom() room {
	bounded := func(amount int64) *fairshare.Queue { return fairshare.NewBounded(amount, waitersEach, waitersAll) }
	return room{bounded(maxSmall), bounded(maxLarge), bounded(1)}
}

func newBodies() *bodies { return &bodies{newRoom(), newRoom()} }

// A body is the body of a request. It has to be released once it is not needed any more.
type body struct {
	text    []byte
	release func()
}

// read reads the body of r by the time its context ends. It is read in any case, if only to be
// thrown away: else the server hangs up, and the API server may fail to send before it reads
// what was answered.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body, *refusal) {
	if r.ContentLength > maxBody {
		discard(w, r)
		return body{}, tooLargeRefusal()
	}
	of := b.others
	if fairshare.ClaimantOf(r.Context()).Rank == recent.RankKnown {
		of = b.known
	}
	in := &incoming{from: http.MaxBytesReader(w, r.Body, maxBody), deadline: readDeadline(w, r)}
	release, err := of.take(r, in)
	switch {
	case err == nil:
		// Left in place it would pass while the server listens for a client that hangs
		// up, and be taken for one.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body{in.text, release}, nil
	case errors.As(err, new(*http.MaxBytesError)):
		discard(w, r)
		return body{}, tooLargeRefusal()
	case errors.Is(err, errCrowded):
		discard(w, r)
		return body{}, notNow(err)
	default:
		return body{}, refusef(http.StatusBadRequest, unreadable, "reading the review: %v", err)
	}
}

var (
	errCrowded = errors.New("too many reviews are under way")
	errSlow    = fmt.Errorf("%w, and this one comes too slowly", errCrowded)
)

// take has the body of r come in, and takes room for it.
func (of room) take(r *http.Request, in *incoming) (release func(), err error) {
	start := time.Now()
	queue := of.small
	if whole, err := in.read(smallBody+1, func(came int) time.Time {
		if came == 0 {
			return start.Add(firstByte)
		}
		return start.Add(bodyTime)
	}); err != nil {
		return nil, err
	} else if !whole {
		if err := acquire(r.Context(), of.turn, 1); err != nil {
			return nil, err
		}
		defer of.turn.Release(1)
		if err := in.rest(r.ContentLength); err != nil {
			return nil, err
		}
		queue = of.large
	}
	room := int64(max(len(in.text), leastBody))
	if err := acquire(r.Context(), queue, room); err != nil {
		return nil, err
	}
	return func() { queue.Release(room) }, nil
}

// acquire waits for room until there is just time left to say that there is none.
func acquire(ctx context.Context, queue *fairshare.Queue, room int64) error {
	ctx, cancel := review.KeepBack(ctx, refusalTime)
	defer cancel()
	if queue.Acquire(ctx, 0, room) != nil {
		return errCrowded
	}
	return nil
}

// An incoming is a body, and the part of it that has come.
type incoming struct {
	from     io.Reader
	text     []byte
	deadline func(time.Time) // ends reading
}

// read reads until the end, or until there are so many bytes; until returns the deadline for more, by the
// bytes read so far. It reports whether that is the whole body.
func (in *incoming) read(most int, until func(came int) time.Time) (whole bool, err error) {
	before := len(in.text)
	for len(in.text) < most {
		if len(in.text) == cap(in.text) {
			in.text = slices.Grow(in.text, 8<<10)
		}
		in.deadline(until(len(in.text) - before))
		n, err := in.from.Read(in.text[len(in.text):min(cap(in.text), most)])
		in.text = in.text[:len(in.text)+n]
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// rest reads the rest of a body that is announced to be so large, a negative number if it is not.
func (in *incoming) rest(size int64) error {
	start, before := time.Now(), len(in.text)
	until := func(int) time.Time {
		return start.Add(pause + time.Duration(len(in.text)-before)*time.Second/pace)
	}
	whole, err := in.read(likelyBody, until)
	if err == nil && !whole {
		if more := int(size) - len(in.text); more > 0 {
			in.text = slices.Grow(in.text, more) // so that not much is copied
		}
		_, err = in.read(maxBody+1, until)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return err
}

// discard reads the rest of a body, up to a little more than the largest one has.
func discard(w http.ResponseWriter, r *http.Request) {
	readDeadline(w, r)(time.Now().Add(bodyTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 2*maxBody)) // there is an answer in any case
}

// readDeadline returns what ends the reading of r at some time, or earlier if that is when its context ends. A
// ResponseWriter without deadlines is not a server's.
func readDeadline(w http.ResponseWriter, r *http.Request) func(time.Time) {
	control := http.NewResponseController(w)
	latest, limited := r.Context().Deadline()
	return func(end time.Time) {
		if limited && latest.Before(end) {
			end = latest
		}
		_ = control.SetReadDeadline(end)
	}
}

func tooLargeRefusal() *refusal {
	return refusef(http.StatusRequestEntityTooLarge, tooLarge, "the review has more than %d bytes, which is the limit", maxBody)
}
