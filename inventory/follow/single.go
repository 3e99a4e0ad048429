package follow

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Single is the Sink of a Source that follows one object: it holds what is left of the
// object as last read. It is safe for concurrent use.
type Single struct {
	// Changed is called after each change of what Read returns, by the goroutine of the
	// Source. It may be nil.
	Changed func()

	mu     sync.Mutex
	value  any
	denied bool
}

// Read returns what Source.Trim left of the object, nil if there is none, and whether that is
// because it may not be read, and never could be.
func (s *Single) Read() (value any, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.denied
}

func (s *Single) set(value any, denied bool) {
	s.mu.Lock()
	s.value, s.denied = value, denied
	s.mu.Unlock()
	if s.Changed != nil {
		s.Changed()
	}
}

// Put implements Sink.
func (s *Single) Put(o *Object) { s.set(o.Value, false) }

// Remove implements Sink.
func (s *Single) Remove(string, string) { s.set(nil, false) }

// Replace implements Sink.
func (s *Single) Replace(all []*Object) {
	if len(all) == 0 {
		s.set(nil, false)
		return
	}
	s.Put(all[0])
}

// None implements Sink.
func (s *Single) None(reason error) { s.set(nil, apierrors.IsForbidden(reason)) }
