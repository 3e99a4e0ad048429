package inventory

import (
	"sync"
	"time"
)

// A SourceStatus says how far the knowledge of one source can be trusted.
type SourceStatus struct {
	// Name is the resource as a person types it: "deployments.apps".
	Name string
	// Synced is set once all objects have been read, or the cluster has said that
	// it does not serve the resource.
	Synced bool
	// Lacking is why there are no objects though there is no error either: the
	// resource is not served here. Nil otherwise.
	Lacking error
	// Heard is when the source last answered: a list, an event, a sign of life.
	// Zero if it never did.
	Heard time.Time
	// Err is what stands between the cluster and fresher knowledge; nil if
	// nothing does.
	Err error
}

// A health keeps a SourceStatus.
type health struct {
	mu     sync.Mutex
	status SourceStatus
	// onSync is called once, when the source has synced.
	onSync func()
}

// Status returns a copy.
func (h *health) Status() SourceStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// succeed says that the source has answered.
func (h *health) succeed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Heard = time.Now()
	h.status.Err = nil
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Err = err
}

// arrived says that the sink has all objects.
func (h *health) arrived() { h.sync(nil) }

// lacking says that there are no objects, and why.
func (h *health) lacking(reason error) { h.sync(reason) }

func (h *health) sync(reason error) {
	h.mu.Lock()
	first := !h.status.Synced
	h.status.Synced = true
	h.status.Lacking = reason
	h.status.Heard = time.Now()
	h.status.Err = nil
	h.mu.Unlock()
	if first {
		h.onSync()
	}
}
