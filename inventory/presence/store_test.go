package presence

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/goroutines"
)

// A fakeProber takes its time and counts.
type fakeProber struct {
	ProberFunc // the rest of a Prober
	takes      time.Duration
	presence   policy.Presence
	probed     atomic.Int32
	running    atomic.Int32
	most       atomic.Int32

	mu    sync.Mutex
	order []string
}

func (p *fakeProber) Probe(ctx context.Context, l mirrors.Location) policy.Fact {
	p.probed.Add(1)
	p.mu.Lock()
	p.order = append(p.order, l.Ref)
	p.mu.Unlock()
	p.most.Store(max(p.most.Load(), p.running.Add(1))) // exact enough: a synctest bubble runs in lock step
	defer p.running.Add(-1)
	if sleep(ctx, p.takes) != nil {
		return policy.Fact{}
	}
	return policy.Fact{Presence: p.presence, Time: time.Now()}
}

func newTestStore(p Prober, adjust ...func(*Options)) *Store {
	var o Options
	for _, f := range adjust {
		f(&o)
	}
	return NewStore(p, o)
}

func locations(n int, format string) []mirrors.Location {
	locs := make([]mirrors.Location, n)
	for i := range locs {
		locs[i] = mirrors.Location{Ref: fmt.Sprintf(format, i)}
	}
	return locs
}

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// TestLifetimes: how soon a fact of each kind is asked for again.
func TestLifetimes(t *testing.T) {
	byTag, byDigest := tagged(), digested()
	for _, tc := range []struct {
		presence policy.Presence
		location mirrors.Location
		life     time.Duration
	}{
		{policy.Present, byDigest, time.Hour},
		{policy.Present, byTag, 2 * time.Minute},
		{policy.Absent, byTag, 2 * time.Second},
		{policy.Absent, byDigest, 2 * time.Second},
		{policy.Denied, byDigest, 10 * time.Second},
		{policy.Unreachable, byDigest, 10 * time.Second},
		{policy.Mismatch, byDigest, 10 * time.Second},
		{policy.Unknown, byDigest, 0},
	} {
		t.Run(fmt.Sprint(tc.presence, " ", tc.location.Ref[len(host):]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fakeProber{presence: tc.presence}
				s := newTestStore(p)
				defer s.Close()
				ask := func() { s.Presence(t.Context(), []mirrors.Location{tc.location}, policy.Freshness{}) }
				ask()
				if tc.life > 0 {
					time.Sleep(tc.life - time.Millisecond)
					ask()
					if n := p.probed.Load(); n != 1 {
						t.Fatalf("%d probes before the end of its life", n)
					}
					time.Sleep(2 * time.Millisecond)
				}
				ask()
				if n := p.probed.Load(); n != 2 {
					t.Errorf("%d probes after the end of its life, want 2", n)
				}
			})
		})
	}
}

// TestLateAnswers: what does not come in time is Unknown, is asked for all the same,
// and is there for the next call.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 3 * time.Second, presence: policy.Present}
		s := newTestStore(p)
		defer s.Close()
		ctx, cancel := timeout(time.Second)
		defer cancel()
		start := time.Now()
		facts := s.Presence(ctx, []mirrors.Location{digested()}, policy.Freshness{})
		if took := time.Since(start); took != time.Second || len(facts) != 0 {
			t.Fatalf("after %v: %v", took, facts)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		facts = s.Presence(ctx, []mirrors.Location{digested()}, policy.Freshness{}) // ctx is over: only what is known
		if facts.At(digested()).Presence != policy.Present || p.probed.Load() != 1 {
			t.Errorf("%v after %d probes", facts, p.probed.Load())
		}
	})
}

// TestPartialAnswer: the deadline cuts in the middle, and a second call finishes.
func TestPartialAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 100 * time.Millisecond, presence: policy.Present}
		s := newTestStore(p, func(o *Options) { o.perRegistry = 10 })
		defer s.Close()
		locs := locations(200, "h.io/a:%d")
		ctx, cancel := timeout(1050 * time.Millisecond)
		defer cancel()
		facts := s.Presence(ctx, locs, policy.Freshness{})
		if len(facts) != 100 {
			t.Errorf("%d facts in 1 s, want 100", len(facts))
		}
		for _, l := range locs[:100] {
			if facts.At(l).Presence != policy.Present {
				t.Fatalf("%s, one of the first, is %v", l.Ref, facts.At(l).Presence)
			}
		}
		if facts = s.Presence(t.Context(), locs, policy.Freshness{}); len(facts) != 200 || p.probed.Load() != 200 {
			t.Errorf("%d facts after %d probes, want 200 after 200", len(facts), p.probed.Load())
		}
	})
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Second, presence: policy.Absent}
		s := newTestStore(p)
		defer s.Close()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				facts := s.Presence(t.Context(), []mirrors.Location{tagged(), tagged()}, policy.Freshness{})
				if facts.At(tagged()).Presence != policy.Absent {
					t.Errorf("got %v", facts)
				}
			})
		}
		wg.Wait()
		if n := p.probed.Load(); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
	})
}

func TestInsecureIsAnotherLocation(t *testing.T) {
	p := &fakeProber{presence: policy.Present}
	s := newTestStore(p)
	defer s.Close()
	insecure := tagged()
	insecure.Insecure = true
	if facts := s.Presence(t.Context(), []mirrors.Location{tagged(), insecure}, policy.Freshness{}); len(facts) != 2 || p.probed.Load() != 2 {
		t.Errorf("%d facts after %d probes", len(facts), p.probed.Load())
	}
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Second, presence: policy.Present}
		s := newTestStore(p, func(o *Options) { o.atOnce, o.perRegistry = 20, 8 })
		defer s.Close()
		s.Presence(t.Context(), locations(40, "h.io/a:%d"), policy.Freshness{})
		if n := p.most.Load(); n != 8 {
			t.Errorf("%d at once at one registry, want 8", n)
		}
		s.Presence(t.Context(), locations(100, "h%d.io/a:1"), policy.Freshness{})
		if n := p.most.Load(); n != 20 {
			t.Errorf("%d at once, want 20", n)
		}
	})
}

// TestSlowRegistryDoesNotHoldUpOthers: each registry is served in turn.
func TestSlowRegistryDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ProberFunc(func(ctx context.Context, l mirrors.Location) policy.Fact {
			if strings.HasPrefix(l.Ref, "slow") {
				<-ctx.Done()
				return policy.Fact{}
			}
			return policy.Fact{Presence: policy.Present}
		})
		s := newTestStore(p)
		defer s.Close()
		ctx, cancel := timeout(time.Second)
		defer cancel()
		quick := locations(100, "quick.io/a:%d")
		facts := s.Presence(ctx, slices.Concat(locations(1000, "slow.io/a:%d"), quick), policy.Freshness{})
		if len(facts) != 100 {
			t.Errorf("%d facts, want 100", len(facts))
		}
	})
}

// TestWhoWaitsComesFirst: locations whose callers have all left make room.
func TestWhoWaitsComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 100 * time.Millisecond, presence: policy.Present}
		s := newTestStore(p, func(o *Options) { o.perRegistry = 1 })
		defer s.Close()
		ctx, cancel := timeout(50 * time.Millisecond)
		defer cancel()
		s.Presence(ctx, locations(100, "h.io/old:%d"), policy.Freshness{})
		start := time.Now()
		facts := s.Presence(t.Context(), []mirrors.Location{{Ref: "h.io/new:1"}}, policy.Freshness{})
		if took := time.Since(start); len(facts) != 1 || took > 200*time.Millisecond {
			t.Errorf("%v after %v", facts, took)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := p.probed.Load(); n != 101 {
			t.Errorf("%d probes, want 101: the others are looked up afterwards", n)
		}
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 10 * time.Second, presence: policy.Present}
		s := newTestStore(p, func(o *Options) { o.perRegistry = 1 })
		defer s.Close()
		ctx, cancel := timeout(time.Second)
		defer cancel()
		s.Presence(ctx, locations(100, "h.io/a:%d"), policy.Freshness{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := p.probed.Load(); n > 14 {
			t.Errorf("%d probes for nobody, want those of 2 minutes", n)
		}
		if len(s.jobs) != 0 || len(s.queues) != 0 || s.running != 0 {
			t.Errorf("%d jobs, %d queues, %d running are left", len(s.jobs), len(s.queues), s.running)
		}
	})
}

// TestAbandonedAreBounded: of what nobody waits for any more, and a registry does not answer, no more
// is kept than somebody may want who tries again; nor is anything for the size that it had.
func TestAbandonedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 10 * time.Second, presence: policy.Unreachable}
		s := newTestStore(p, func(o *Options) { o.perRegistry = 1 })
		defer s.Close()
		ctx, cancel := timeout(time.Second)
		defer cancel()
		s.Presence(ctx, locations(3*maxAbandoned, "h.io/a:%d"), policy.Freshness{})
		jobs := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.jobs)
		}
		if n := jobs(); n != 3*maxAbandoned {
			t.Errorf("%d jobs, want all: a caller waits for them until the first is done", n)
		}
		time.Sleep(10 * time.Second)
		if n := jobs(); n > maxAbandoned+1 {
			t.Errorf("%d jobs that nobody waits for", n)
		}
		time.Sleep(3 * time.Minute)
		if n := jobs(); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
	})
}

func TestProbeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Hour, presence: policy.Present}
		s := newTestStore(p)
		defer s.Close()
		start := time.Now()
		facts := s.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{})
		if took := time.Since(start); len(facts) != 0 || took != 30*time.Second {
			t.Errorf("%v after %v", facts, took)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	p := &fakeProber{presence: policy.Present}
	s := newTestStore(p, func(o *Options) { o.maxFacts = 10 })
	defer s.Close()
	for i := range 100 {
		s.Presence(t.Context(), []mirrors.Location{{Ref: fmt.Sprintf("h.io/a@%d", i)}}, policy.Freshness{})
	}
	inRing := 0
	for m := s.memory.ends.younger; m != &s.memory.ends; m = m.younger {
		inRing++
	}
	if n := len(s.memory.facts); n != 10 || inRing != 10 {
		t.Errorf("%d facts are kept, want 10", n)
	}
	s.Presence(t.Context(), []mirrors.Location{{Ref: "h.io/a@99"}}, policy.Freshness{})
	if n := p.probed.Load(); n != 100 {
		t.Errorf("the newest is gone: %d probes", n)
	}
	if facts := s.Presence(t.Context(), locations(50, "h.io/b:%d"), policy.Freshness{}); len(facts) != 10 {
		t.Errorf("%d facts, want as many as may wait", len(facts))
	}
}

// A changingProber has a generation.
type changingProber struct {
	fakeProber
	generation atomic.Uint64
}

func (p *changingProber) Generation() uint64 { return p.generation.Load() }

func TestFactsOfAnEarlierGeneration(t *testing.T) {
	p := &changingProber{fakeProber: fakeProber{presence: policy.Present}}
	s := newTestStore(p)
	defer s.Close()
	for range 3 {
		s.Presence(t.Context(), []mirrors.Location{digested()}, policy.Freshness{})
		p.generation.Add(1)
	}
	if n := p.probed.Load(); n != 3 {
		t.Errorf("%d probes, want 3: other credentials may get another answer", n)
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	p := &fakeProber{takes: time.Hour, presence: policy.Present}
	s := newTestStore(p)
	ctx, cancel := timeout(10 * time.Millisecond)
	defer cancel()
	s.Presence(ctx, locations(1000, "h.io/a:%d"), policy.Freshness{})
	done := make(chan error)
	run, stop := context.WithCancel(t.Context())
	go func() { done <- s.Run(run) }()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if facts := s.Presence(t.Context(), locations(3, "h.io/b:%d"), policy.Freshness{}); len(facts) != 0 {
		t.Errorf("a closed store found %v", facts)
	}
	goroutines.Await(t, before)
}

func TestNotes(t *testing.T) {
	s := newTestStore(&fakeProber{})
	defer s.Close()
	s.SetNote("secret", "the global pull secret openshift-config/pull-secret is missing: registries were asked without credentials")
	s.SetNote("ca", "a\nb "+strings.Repeat("x", 500))
	s.SetNote("gone", "for a while")
	s.SetNote("gone", "")
	want := []string{
		"a b " + strings.Repeat("x", 114) + "…",
		"the global pull secret openshift-config/pull-secret is missing: registries were asked without credentials",
	}
	if diff := cmp.Diff(want, s.Notes()); diff != "" {
		t.Error(diff)
	}
}
