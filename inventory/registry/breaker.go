package registry

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A breaker spares a registry that is dead, and those who wait for it. After a row
// of failures, or one that says enough, the last failure is the answer to every
// question for a while; then the next question is put again. Each time in a row
// the while doubles. It closes by itself with the first answer.
type breaker struct {
	mu       sync.Mutex
	failures int
	trips    int
	until    time.Time
	cause    *failure
}

const (
	// maxFailures in a row: with half of all answers failing at random that happens
	// once in 65,000 requests.
	maxFailures = 16
	minRest     = time.Second
	maxRest     = 30 * time.Second
)

// open returns why not to ask at the moment, nil if asking is all right.
func (b *breaker) open() *failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil && time.Now().Before(b.until) {
		return b.cause
	}
	return nil
}

// failed counts f and reports whether the breaker has opened for it. A grave
// failure opens it at once.
func (b *breaker) failed(f *failure, grave bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	if !grave && b.failures < maxFailures {
		return false
	}
	if time.Now().Before(b.until) {
		return false // open already; this one was on its way
	}
	rest := min(maxRest, max(minRest<<min(b.trips, 10), f.after))
	b.until = time.Now().Add(rest - rand.N(rest/4)) //nolint:gosec // not a secret
	b.cause = f
	b.trips++
	b.failures = maxFailures - 1 // the next failure in a row opens it again
	return true
}

// answered closes the breaker.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.trips, b.cause, b.until = 0, 0, nil, time.Time{}
}
