package review

import (
	"context"
	"time"
)

// KeepBack returns a context that ends d before ctx does, or after half of the time that
// ctx has if that is later.
func KeepBack(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-KeptBack(d, time.Until(end))))
}

// KeptBack returns how much of the time left is kept back if d is asked for.
func KeptBack(d, left time.Duration) time.Duration { return min(d, left/2) }
