package follow

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Status describes how fresh one Source is, and what it lacks.
type Status struct {
	// Name is Source.Name.
	Name string
	// Synced is set once all objects have been read, or the cluster has said that
	// it does not serve the resource, or for long enough that it may not be read.
	Synced bool
	// Lacking is why there are no objects although there is no error either: the
	// resource is not served here, or may not be read and never could be (but see Source.Forgets). Nil otherwise.
	Lacking error
	// Heard is when the source last answered, by a list, an event or a bookmark. Zero if it
	// never did.
	Heard time.Time
	// Err is why the source is not being read at the moment; nil if it is, or if the
	// failure has not been noticed yet.
	Err error
	// Failing is the time of the first Err; zero if there is none.
	Failing time.Time
	// Stale is set when a source that is served has been out of reach for too long
	// (StaleAfter): objects may have come, changed and gone since Heard.
	Stale bool
}

// Status returns the status of the source as it is now.
func (s *Source) Status() Status {
	status := s.health.read()
	status.Name = s.Name
	return status
}

// IsReadable reports whether the source has been read, and was served when it was last
// heard from.
func (s Status) IsReadable() bool { return s.Synced && s.Lacking == nil }

// IsForbidden reports whether the source may not be read.
func (s Status) IsForbidden() bool { return apierrors.IsForbidden(s.Lacking) }

// IsBlind reports whether objects of a source that is served may come, change and go unnoticed: it
// is stale, or will be unless it is read again.
func (s Status) IsBlind() bool { return s.Stale || s.IsReadable() && s.Err != nil }

// Waiting names the sources that have not synced yet, each with what was wrong when it was last asked.
func Waiting[S interface{ Status() Status }](sources []S) []string {
	var waiting []string
	for _, s := range sources {
		switch status := s.Status(); {
		case status.Synced:
		case status.Err == nil:
			waiting = append(waiting, status.Name+" not read yet")
		default:
			waiting = append(waiting, fmt.Sprintf("%s not read: %v", status.Name, status.Err))
		}
	}
	return waiting
}

// Staleness says for how long a source has been stale, and why. It follows a name in a
// message.
func (s Status) Staleness() string {
	age := time.Since(s.Heard).Round(time.Second)
	if s.Err == nil {
		return fmt.Sprintf("not heard from for %s", age)
	}
	return fmt.Sprintf("out of reach for %s: %v", age, s.Err)
}

// A health keeps the Status of a Source. Its zero value is that of one that has not run.
type health struct {
	mu     sync.Mutex
	status Status
	// due is when the source should have been heard from again at the latest, even if only
	// because a watch has ended; zero if nothing is under way.
	due time.Time
	// refused is when the source was refused first since it was last answered
	// otherwise; zero if it was not.
	refused time.Time
}

func (h *health) read() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	isOverdue := !h.due.IsZero() && time.Now().After(h.due) // by a dead connection, and not as nothing happens
	s.Stale = s.IsReadable() && time.Since(s.Heard) >= StaleAfter && (s.Err != nil || isOverdue)
	return s
}

// succeed says that the source has answered.
func (h *health) succeed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Heard = time.Now()
	h.fails(nil)
	h.refused = time.Time{}
}

// heard notes an answer, which may turn out to be incomplete.
func (h *health) heard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Heard = time.Now()
}

// fails notes why the source is not being read. It is called with the lock held.
func (h *health) fails(err error) {
	if (h.status.Err == nil) != (err == nil) {
		h.status.Failing = time.Time{}
		if err != nil {
			h.status.Failing = time.Now()
		}
	}
	h.status.Err = err
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
	h.fails(err)
	h.refused = time.Time{}
}

// forbidden takes a refusal and reports whether it says that the source may not be
// read. That is never so of one that could be read, unless it forgets: an API server that starts or
// is being configured refuses for a moment what it grants afterwards, and to forget
// all images for that would admit anything. For the same reason, a source that was never read is asked
// for again until the refusal has lasted for as long as lasts.
func (h *health) forbidden(err error, lasts time.Duration, forgets bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused.IsZero() {
		h.refused = time.Now()
	}
	if (forgets || !h.status.IsReadable()) && time.Since(h.refused) >= lasts {
		return true
	}
	h.fails(err)
	return false
}

// sync notes that all objects have been read, or why there are none. It reports whether
// this is the first time, and whether the resource has begun or ceased to be served.
func (h *health) sync(lacking error) (first, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.status.Synced
	changed = (h.status.Lacking == nil) != (lacking == nil)
	h.status.Synced = true
	h.status.Lacking = lacking
	h.status.Heard = time.Now()
	h.fails(nil)
	if !apierrors.IsForbidden(lacking) {
		h.refused = time.Time{}
	}
	return first, changed
}
