package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// grace is how long a decision may take that heeds the end of its context. It is a part of the
// reserve: the answer still has to be written.
const grace = 250 * time.Millisecond

// inTime decides on req by the end of ctx, and a moment, at the latest: what plans, decides and writes
// for very many images, on a machine that has other things to do, does not look at the time all the
// while. What comes too late is not heeded, and admits nothing. It returns the request as whoever
// reports the decision may use it, and calls over once nobody uses req any more.
func (h *Handler) inTime(ctx context.Context, req admission.Request, over func()) (*request, decision) {
	r := readRequest(req.AdmissionRequest)
	var users atomic.Int32
	users.Store(2)
	leave := func() {
		if users.Add(-1) == 0 {
			over()
		}
	}
	defer leave()
	decided := make(chan decision, 1)
	go func() {
		defer leave()
		d := h.decide(ctx, r)
		if r.fate.Load() == abandoned {
			r.release()
		}
		decided <- d
	}()
	select {
	case d := <-decided:
		return r, d
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case d := <-decided:
		return r, d
	case <-timer.C:
	}
	if !r.fate.CompareAndSwap(0, abandoned) {
		return r, <-decided // others have been told already
	}
	late := readRequest(req.AdmissionRequest)
	return late, noVerdict(late, proposal{name: late.Name, subject: late.title()}, fmt.Errorf("deciding takes longer than there is time: %w", ctx.Err()))
}

// What is settled about a request while it is decided on.
const (
	committed = 1 + iota // others may be told that it is admitted
	abandoned            // it was answered without a verdict
)

// commit reports whether others may be told that r is admitted: not once it was answered otherwise.
func (r *request) commit() bool {
	return r.fate.CompareAndSwap(0, committed) || r.fate.Load() == committed
}
