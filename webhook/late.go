package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// grace is the time that a decision may take after the end of its context, if it heeds that. It is a
// part of the reserve: the answer still has to be written.
const grace = 250 * time.Millisecond

// inTime answers req a moment after the end of ctx at the latest: planning, deciding and writing for
// very many images, on a busy machine, does not check the time at every step. A decision that comes
// too late is dropped, and admits nothing. The request that inTime returns is for reporting the answer;
// over is called once req is not used any more.
func (h *Handler) inTime(ctx context.Context, req admission.Request, over func()) (*request, answer) {
	r := readRequest(req.AdmissionRequest)
	var users atomic.Int32
	users.Store(2)
	leave := func() {
		if users.Add(-1) == 0 {
			over()
		}
	}
	defer leave()
	decided := make(chan answer, 1)
	go func() {
		defer leave()
		a := h.decide(ctx, r)
		if r.fate.Load() == abandoned {
			r.release()
		}
		decided <- a
	}()
	select {
	case a := <-decided:
		return r, a
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-decided:
		return r, a
	case <-timer.C:
	}
	if !r.fate.CompareAndSwap(0, abandoned) {
		return r, <-decided // other replicas have been told already
	}
	late := readRequest(req.AdmissionRequest)
	return late, noVerdict(late, proposal{name: late.Name, subject: late.title()}, fmt.Errorf("deciding took too long: %w", ctx.Err()))
}

// The fates of a request: the first one that is set counts.
const (
	committed = 1 + iota // other replicas may be told that it is admitted
	abandoned            // it was answered without a verdict
)

// commit reports whether other replicas may be told that r is admitted: not once it was answered otherwise.
func (r *request) commit() bool {
	return r.fate.CompareAndSwap(0, committed) || r.fate.Load() == committed
}
