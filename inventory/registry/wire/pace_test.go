package wire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func acquire(t *testing.T, p *pace) *slot {
	t.Helper()
	slot, err := p.acquire(t.Context(), host, maxRetryWait)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// bear makes n requests of a tenth of a second each, one after the other.
func bear(t *testing.T, p *pace, n int, l load) {
	t.Helper()
	for range n {
		slot := acquire(t, p)
		time.Sleep(100 * time.Millisecond)
		p.release(slot, l, 0)
	}
}

func TestPaceFallsAndRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(64, 0)
		bear(t, p, 1, throttled)
		if p.limit != 32 {
			t.Errorf("limit after a 429 = %v, want half", p.limit)
		}
		bear(t, p, 1, overloaded)
		if p.limit < 22 || p.limit > 23 {
			t.Errorf("limit after a 503 = %v, want seven tenths", p.limit)
		}
		bear(t, p, 100, throttled)
		if p.limit != 1 {
			t.Errorf("limit after a hundred 429 = %v, want 1", p.limit)
		}
		p.ceiling = 0
		bear(t, p, 3000, fine)
		if p.limit != 64 {
			t.Errorf("limit after 3,000 answers = %v, want all of it back", p.limit)
		}
	})
}

// TestPaceCountsOneRefusalPerWave: requests that were under way together when the
// first was refused say nothing new.
func TestPaceCountsOneRefusalPerWave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(64, 0)
		var wave []*slot
		for range 64 {
			wave = append(wave, acquire(t, p))
		}
		time.Sleep(100 * time.Millisecond)
		for _, slot := range wave {
			p.release(slot, throttled, 0)
		}
		if p.limit != 32 {
			t.Errorf("limit = %v, want 32", p.limit)
		}
	})
}

func TestPaceFeelsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(64, 0)
		bear(t, p, 10, fine)
		for range 100 {
			slot := acquire(t, p)
			time.Sleep(3 * time.Second)
			p.release(slot, fine, 0)
		}
		if p.limit > 32 {
			t.Errorf("limit = %v although answers take thirty times as long", p.limit)
		}
	})
}

func TestPaceHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(4, 0)
		p.release(acquire(t, p), throttled, 3*time.Second)
		start := time.Now()
		p.release(acquire(t, p), fine, 0)
		if waited := time.Since(start); waited < 3*time.Second || waited > 3100*time.Millisecond {
			t.Errorf("waited %v, want 3 s and a little", waited)
		}
		p.release(acquire(t, p), throttled, time.Minute)
		start = time.Now()
		_, err := p.acquire(t.Context(), host, maxRetryWait)
		var f *Failure
		if !errors.As(err, &f) || f.Presence != policy.Unreachable || time.Since(start) > 0 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if want := "mirror.example.com limits the rate of requests; try again in 1m0s"; f.Detail != want {
			t.Errorf("detail = %q, want %q", f.Detail, want)
		}
		if p.running != 0 {
			t.Errorf("%d slots are lost", p.running)
		}
	})
}

func TestPaceKeepsARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(4, 100)
		start := time.Now()
		for range 510 {
			p.release(acquire(t, p), fine, 0)
		}
		if took := time.Since(start); took < 4900*time.Millisecond || took > 5100*time.Millisecond {
			t.Errorf("510 requests at 100 a second took %v", took)
		}
	})
}

func TestPaceLosesNoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1, 0)
		held := acquire(t, p)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := p.acquire(ctx, host, maxRetryWait); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v", err)
			}
			cancel()
		}
		p.release(held, fine, 0)
		p.release(acquire(t, p), fine, 0)
		if p.running != 0 || len(p.waiting) != 0 {
			t.Errorf("%d running, %d waiting", p.running, len(p.waiting))
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		f := Unreachable("dead")
		for range maxFailures - 1 {
			b.failed(f, false)
		}
		if b.open() != nil {
			t.Fatal("open too early")
		}
		if !b.failed(f, false) || b.open() != f {
			t.Fatal("not open")
		}
		var rests []time.Duration
		for range 8 {
			start := time.Now()
			for b.open() != nil {
				time.Sleep(50 * time.Millisecond)
			}
			rests = append(rests, time.Since(start))
			b.failed(f, false) // the first request afterwards
		}
		for i, rest := range rests {
			want := min(maxRest, minRest<<i)
			if rest > want+50*time.Millisecond || rest < want*3/4-50*time.Millisecond {
				t.Errorf("rest %d = %v, want about %v", i, rest, want)
			}
		}
		b.answered()
		if b.open() != nil || b.failed(f, false) {
			t.Error("one answer does not close it")
		}
		if !b.failed(f, true) {
			t.Error("a grave failure does not open it")
		}
	})
}

func TestBreakerHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		f := Unreachable("busy")
		f.after = 20 * time.Second
		b.failed(f, true)
		time.Sleep(14 * time.Second)
		if b.open() == nil {
			t.Error("asked again before its time")
		}
		time.Sleep(7 * time.Second)
		if b.open() != nil {
			t.Error("still open")
		}
	})
}

// TestSetRates: new rates hold at once, for registries that were asked before and for others, and what was learned stays.
func TestSetRates(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	a := c.paces.forHost("a")
	if a.rate.Limit() != rate.Inf {
		t.Errorf("at first %v a second", a.rate.Limit())
	}
	a.limit = 10 // it has learned
	c.SetRates(map[string]float64{"a": 10, "b": 20})
	if b := c.paces.forHost("b"); a.rate.Limit() != 10 || a.limit != 10 || b.rate.Limit() != 20 {
		t.Errorf("then %+v, %+v", a, b)
	}
	c.SetRates(nil)
	if a.rate.Limit() != rate.Inf {
		t.Errorf("in the end %+v", a)
	}
}

// TestOnePace: a registry that limits its clients does not get more requests because it is asked on behalf of another one.
func TestOnePace(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	own := c.Endpoint(web).pace
	if c.Propose(nil).Endpoint(web).pace != own || c.With(pullsecret.Credentials{}).Endpoint(web).pace != own {
		t.Error("a client that is derived from another has a pace of its own")
	}
}
