package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// isKnown reports whether the sender of ctx is known, or there is none.
func isKnown(ctx context.Context) bool { return fairshare.ClaimantOf(ctx).Rank <= recent.RankKnown }

const (
	// strangersBytes bounds the records of all unknown senders in each strangersPeriod: the 50 MiB that a
	// node keeps of a log last for an hour and a half, and a cluster whose API servers are not known yet
	// makes fewer changes.
	strangersBytes  = 512 << 10
	strangersPeriod = time.Minute
	// leastLine is what a line in the log counts.
	leastLine = 1 << 10
)

// A strangersBudget bounds the bytes that are written for senders that are not known. The zero value is full.
type strangersBudget struct {
	mu    sync.Mutex
	spent int
	since time.Time
	// omitted is for how many requests nothing was written.
	omitted int
}

// spend reports whether so many bytes may be written. The first time that they may not, it has tell called at the
// end of the period, with how many requests were left out since when.
func (b *strangersBudget) spend(bytes int, tell func(omitted int, since time.Time)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.since) >= strangersPeriod && b.omitted == 0 {
		b.since, b.spent = now, 0
	}
	if b.spent+bytes <= strangersBytes {
		b.spent += bytes
		return true
	}
	if b.omitted++; b.omitted == 1 {
		time.AfterFunc(strangersPeriod-now.Sub(b.since), func() {
			b.mu.Lock()
			omitted, since := b.omitted, b.since
			b.omitted = 0
			b.mu.Unlock()
			tell(omitted, since)
		})
	}
	return false
}

// mayWrite reports whether as many bytes may be written for the sender of ctx.
func (h *Handler) mayWrite(ctx context.Context, bytes int) bool {
	return isKnown(ctx) || h.strangers.spend(bytes, func(omitted int, since time.Time) {
		h.Log.Info("Left out requests of senders that are not known", "requests", omitted, "since", since.UTC())
		if h.Audit != nil {
			h.Audit.Omit(omitted, since)
		}
	})
}
