package watchloop

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Burst reports about one object may come at once, and then one in each Every. A registry that has an
// image only now and then is not news each time.
const (
	Burst = 4
	Every = 10 * time.Minute
)

// A Budget bounds the reports about each object, by all reporters together. It is safe for concurrent
// use. A nil *Budget has no bounds.
type Budget struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by Key
}

// NewBudget returns one that nothing has been taken from.
func NewBudget() *Budget { return &Budget{limiters: map[string]*rate.Limiter{}} }

// Allow reports whether there may be a report about o now, and takes it from the budget.
func (b *Budget) Allow(o mirrors.Object) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, limiter := range b.limiters {
		if limiter.Tokens() >= Burst { // as if it were new
			delete(b.limiters, key)
		}
	}
	key := Key(o)
	if b.limiters[key] == nil {
		b.limiters[key] = rate.NewLimiter(rate.Every(Every), Burst)
	}
	return b.limiters[key].Allow()
}
