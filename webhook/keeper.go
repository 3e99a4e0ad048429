package webhook

import (
	"context"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// nextTry is the time that a user may take to copy missing images, or to make a change after
// its dry run.
const nextTry = 15 * time.Minute

// A Keeper keeps the facts of reviews fresh for the next try of the same change. For tens of thousands
// of images that takes seconds, so it does so after the answer.
type Keeper struct{ reviews chan review.Record }

// maxToKeep bounds the reviews that wait to be kept. Facts of further ones are looked up again in the
// next try.
const maxToKeep = 4

// NewKeeper returns a Keeper that has taken nothing.
func NewKeeper() Keeper { return Keeper{make(chan review.Record, maxToKeep)} }

// Add takes r, whose facts are to be kept. It does not wait.
func (k Keeper) Add(r review.Record) {
	// The rest of the record would be kept in memory.
	r = review.Record{Subject: r.Subject, Asked: r.Asked}
	select {
	case k.reviews <- r:
	default:
	}
}

// Run has the facts of reviews kept, until ctx ends.
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
