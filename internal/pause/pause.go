// Package pause waits no longer than a context lasts.
package pause

import (
	"context"
	"time"
)

// For waits until d has passed, something comes from news, which may be nil, or ctx ends, whose error it returns.
func For(ctx context.Context, d time.Duration, news <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Every calls f whenever d has passed, until ctx ends.
func Every(ctx context.Context, d time.Duration, f func()) {
	for For(ctx, d, nil) == nil {
		f()
	}
}
