package environment

import (
	"net/http"
	"sync"
	"time"
)

// A ServerClock tells the time of an API server, by its answers: the clock of this machine may
// be off, and times in a cluster are compared with each other only.
type ServerClock struct {
	mu     sync.Mutex
	offset time.Duration
}

// clockStep is how exactly an answer says when it was given, with some time on its way.
const clockStep = 2 * time.Second

// Wrap returns a transport whose answers set the clock.
func (c *ServerClock) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			c.set(response.Header.Get("Date"))
		}
		return response, err
	})
}

func (c *ServerClock) set(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	offset := time.Until(at)
	if offset.Abs() < clockStep {
		offset = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = offset
}

// Now returns the time of the API server, that of this machine before its first answer.
func (c *ServerClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

// A roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
