package review

import (
	"context"
	"time"
)

// KeepBack returns a context that ends so much before ctx does, or after half of the time that
// ctx has.
func KeepBack(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-KeptBack(d, time.Until(end))))
}

// KeptBack returns how much of the time left is kept back where d is wanted.
func KeptBack(d, left time.Duration) time.Duration { return min(d, left/2) }
