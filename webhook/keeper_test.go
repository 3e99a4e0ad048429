package webhook

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// holdsNothing asks a registry that lacks everything.
type holdsNothing struct{ probes *atomic.Int64 }

func (p holdsNothing) Probe(context.Context, mirrors.Location) policy.Fact {
	p.probes.Add(1)
	return policy.Fact{Presence: policy.Absent, AsNodes: true}
}

func (holdsNothing) Generation() uint64                               { return 0 }
func (holdsNothing) Platforms() []string                              { return nil }
func (holdsNothing) Prepare(context.Context, []mirrors.Location) bool { return true }

// TestKeepForNextTry: what a change that was refused rests on is looked up again while
// somebody may be mending it, and no longer.
func TestKeepForNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int64
		store := presence.NewStore(holdsNothing{&probes}, presence.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- store.Run(ctx) }()

		k := NewKeeper()
		kept := make(chan struct{})
		go func() {
			k.Run(ctx, store.Keep)
			close(kept)
		}()
		k.Add(review.Record{Subject: "ImageTagMirrorSet apps", Asked: []mirrors.Location{{Ref: "mirror.example.com/app:1"}}})
		time.Sleep(nextTry)
		synctest.Wait()
		during := probes.Load()
		time.Sleep(time.Hour)
		if after := probes.Load() - during; during < 10 || after > 0 {
			t.Errorf("%d probes within %s and %d afterwards, want about one a minute and none", during, nextTry, after)
		}
		cancel()
		<-kept
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestKeepingHoldsNoAnswerUp: whatever is kept takes its time after the answer, and not before it.
func TestKeepingHoldsNoAnswerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, start := NewKeeper(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			k.Run(ctx, func(string, []mirrors.Location, time.Duration) { time.Sleep(time.Minute) })
			close(ended)
		}()
		for range 2 * maxToKeep {
			k.Add(review.Record{Subject: "ImageTagMirrorSet apps"})
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("answers wait for %s", took)
		}
		cancel()
		<-ended
	})
}
