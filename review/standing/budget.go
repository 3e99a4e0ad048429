package standing

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// reportBurst and reportEvery bound the reports about one object. A registry that has an
	// image only now and then is not news each time.
	reportBurst = 4
	reportEvery = 10 * time.Minute
)

// A Budget bounds the reports about each object, whoever makes them. It is safe for concurrent
// use.
type Budget struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by keyOf
}

// NewBudget returns one that nothing has been taken from.
func NewBudget() *Budget { return &Budget{limiters: map[string]*rate.Limiter{}} }

// Allow reports whether there may be a report about o now, and takes it from the budget.
func (b *Budget) Allow(o mirrors.Object) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, limiter := range b.limiters {
		if limiter.Tokens() >= reportBurst { // as if it were new
			delete(b.limiters, key)
		}
	}
	key := keyOf(o)
	if b.limiters[key] == nil {
		b.limiters[key] = rate.NewLimiter(rate.Every(reportEvery), reportBurst)
	}
	return b.limiters[key].Allow()
}
