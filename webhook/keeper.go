package webhook

import (
	"context"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// nextTry is how long somebody may take to copy what was missing, or to make a change
// that was tried.
const nextTry = 15 * time.Minute

// A Keeper keeps fresh what verdicts rest on, so that the next try finds it. That takes seconds where
// it is tens of thousands of images, so it does so after the answer.
type Keeper struct{ reviews chan review.Record }

// maxToKeep is how many reviews wait to be kept. What does not fit is looked up again in its next try.
const maxToKeep = 4

// NewKeeper returns a Keeper that has taken nothing.
func NewKeeper() Keeper { return Keeper{make(chan review.Record, maxToKeep)} }

// Add takes r to be kept. It does not wait.
func (k Keeper) Add(r review.Record) {
	// The rest of the record would be kept in memory.
	r = review.Record{Subject: r.Subject, Asked: r.Asked}
	select {
	case k.reviews <- r:
	default:
	}
}

// Run has what is taken kept, until ctx ends.
func (k Keeper) Run(ctx context.Context, keep func(topic string, locations []mirrors.Location, lasts time.Duration)) {
	for {
		select {
		case r := <-k.reviews:
			keep("asked for: "+r.Subject, r.Asked, nextTry)
		case <-ctx.Done():
			return
		}
	}
}
