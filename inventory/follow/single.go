package follow

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// One is the Sink of a Source that follows one object. It is called with what Source.Trim left of the
// object, nil if there is none, and with the reason if it is not served or may not be read.
type One func(value any, lacking error)

// Put implements Sink.
func (f One) Put(o *Object) { f(o.Value, nil) }

// Remove implements Sink.
func (f One) Remove(string, string) { f(nil, nil) }

// Replace implements Sink.
func (f One) Replace(all []*Object, lacking error) {
	if len(all) == 0 {
		f(nil, lacking)
		return
	}
	f(all[0].Value, nil)
}

// A Single holds one object as last read; One(single.Set) is the Sink. It is safe for concurrent use.
type Single struct {
	// Changed is called after each Set. It may be nil.
	Changed func()

	mu     sync.Mutex
	value  any
	denied bool
}

// Read returns what Source.Trim left of the object, nil if there is none, and whether that is
// because it may not be read.
func (s *Single) Read() (value any, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.denied
}

// Set is a One.
func (s *Single) Set(value any, lacking error) {
	s.mu.Lock()
	s.value, s.denied = value, apierrors.IsForbidden(lacking)
	s.mu.Unlock()
	if s.Changed != nil {
		s.Changed()
	}
}
