package cluster

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A SourceStatus says how far the knowledge of one source can be trusted.
type SourceStatus struct {
	// Name is the resource as a person types it: "deployments.apps".
	Name string
	// Synced is set once all objects have been read, or the cluster has said that
	// it does not serve the resource, or for long enough that it may not be read.
	Synced bool
	// Lacking is why there are no objects though there is no error either: the
	// resource is not served here, or may not be read and never could be. Nil otherwise.
	Lacking error
	// Heard is when the source last answered: a list, an event, a sign of life.
	// Zero if it never did.
	Heard time.Time
	// Err is what stands between the cluster and fresher knowledge; nil if
	// nothing does, or nobody has noticed yet.
	Err error
	// Stale is set when a source that is served has been out of reach for too long
	// (Options.StaleAfter): objects may have come, changed and gone since Heard.
	Stale bool
}

// A health keeps a SourceStatus.
type health struct {
	mu     sync.Mutex
	status SourceStatus
	// due is when the source should have been heard again at the latest, be it that
	// a watch has ended; zero if nothing is under way.
	due        time.Time
	staleAfter time.Duration
	// refused is when the source was refused first since it was last answered
	// otherwise; zero if it was not. Refusals count after forbiddenAfter.
	refused        time.Time
	forbiddenAfter time.Duration
	// onSync is called once, when the source has synced; onTurn afterwards, when
	// what was not served is, or the other way round, with the new Lacking.
	onSync func()
	onTurn func(lacking error)
}

// Status returns a copy.
func (h *health) Status() SourceStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	s.Stale = s.Synced && s.Lacking == nil && time.Since(s.Heard) >= h.staleAfter && (s.Err != nil || h.overdue())
	return s
}

// isReadable reports whether the source has been read, and was served when it was
// last heard.
func (h *health) isReadable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.isReadable()
}

func (s SourceStatus) isReadable() bool { return s.Synced && s.Lacking == nil }

// overdue tells a connection that is dead, though nobody has said so, from a
// source where nothing happens.
func (h *health) overdue() bool { return !h.due.IsZero() && time.Now().After(h.due) }

// succeed says that the source has answered.
func (h *health) succeed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Heard = time.Now()
	h.status.Err = nil
	h.refused = time.Time{}
}

// expect says that something will be heard within d: the end of a watch, if
// nothing else.
func (h *health) expect(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = time.Now().Add(d)
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Err = err
	h.refused = time.Time{}
}

// forbidden takes a refusal and reports whether it says that the source may not be
// read. That is never so of one that could be read: an API server that starts or
// is being configured refuses for a moment what it grants afterwards, and to forget
// all images for that would admit anything. What never could be read is asked for
// again for the same reason, until the refusal has lasted.
func (h *health) forbidden(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused.IsZero() {
		h.refused = time.Now()
	}
	if !h.status.isReadable() && time.Since(h.refused) >= h.forbiddenAfter {
		return true
	}
	h.status.Err = err
	return false
}

// arrived says that the sink has all objects.
func (h *health) arrived() { h.sync(nil) }

// lacking says that there are no objects, and why.
func (h *health) lacking(reason error) { h.sync(reason) }

func (h *health) sync(reason error) {
	h.mu.Lock()
	first := !h.status.Synced
	turned := (h.status.Lacking == nil) != (reason == nil)
	h.status.Synced = true
	h.status.Lacking = reason
	h.status.Heard = time.Now()
	h.status.Err = nil
	if !apierrors.IsForbidden(reason) {
		h.refused = time.Time{}
	}
	h.mu.Unlock()
	switch {
	case first:
		h.onSync()
	case turned:
		h.onTurn(reason)
	}
}
