package presence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// running runs s until the test ends, inside its bubble.
func running(t *testing.T, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// held returns how many topics s keeps, and how many locations for them.
func held(s *Store) (topics, due int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keeper.topics), len(s.keeper.due)
}

// digests returns n locations by digest at one registry.
func digests(n int, format string) []mirrors.Location {
	return locations(n, format+"@sha256:"+manifestSum.Encoded())
}

// TestKeep: what is kept is asked for again, and no more often than it takes; what is
// not kept any more is not.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Second, presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		kept := digests(100, "h.io/kept%d")
		s.Keep("live", kept, 0)
		time.Sleep(10 * time.Hour)
		// Each after 50 to 90 % of an hour, for ten hours.
		if n := p.probed.Load(); n < 100*11 || n > 100*21 {
			t.Errorf("%d probes in ten hours, want about 1,500", n)
		}
		s.Keep("live", nil, 0)
		synctest.Wait()
		before := p.probed.Load()
		time.Sleep(3 * time.Hour)
		if n := p.probed.Load(); n != before {
			t.Errorf("%d probes for nobody", n-before)
		}
	})
}

// TestKeepIsEven: as many facts are refreshed in any half minute as in any other, from the start on, so that a
// loss at any time meets a refresh soon.
func TestKeepIsEven(t *testing.T) {
	const all, life, window = 2000, 5 * time.Minute, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 10 * time.Millisecond, presence: policy.Present}
		s := newTestStore(p, func(o *Options) { o.Lifetimes.PresentDigest = life })
		defer running(t, s)()
		s.Keep("live", digests(all, "h.io/a%d"), 0)
		time.Sleep(time.Minute) // 40 s for all of them, and those that are due meanwhile
		want := int32(all * window / (life * 7 / 10))
		for range 40 {
			before := p.probed.Load()
			time.Sleep(window)
			if n := p.probed.Load() - before; n < want*2/3 || n > want*4/3 {
				t.Errorf("%d lookups in %s, want about %d", n, window, want)
			}
		}
	})
}

// TestKeepWhatIsKnown: facts that are fresh are not asked for again any sooner, however
// often they are named.
func TestKeepWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &changingProber{fakeProber: fakeProber{presence: policy.Present}}
		p.generation.Add(1)
		s := newTestStore(p)
		defer running(t, s)()
		known := digests(100, "h.io/a%d")
		s.Presence(t.Context(), known, policy.Freshness{})
		for range 29 {
			s.Keep("live", known, 0)
			s.Keep("refused: ImageDigestMirrorSet apps", known[:50], time.Hour)
			time.Sleep(time.Minute)
		}
		// One in 42 minutes, at a random time of the first.
		if n := p.probed.Load(); n < 110 || n > 200 {
			t.Errorf("%d probes, want 100 and about 69", n)
		}
	})
}

// TestKeepNeverEnds: a caller that asks about a kept fact never has to wait.
func TestKeepNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Second, presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		kept := append(digests(50, "h.io/a%d"), locations(50, "h.io/b%d:1")...)
		s.Keep("live", kept, 0)
		time.Sleep(30 * time.Second)
		for range 10_000 {
			time.Sleep(time.Second)
			start := time.Now()
			if facts := s.Presence(t.Context(), kept, policy.Freshness{}); len(facts) != len(kept) || time.Since(start) > 0 {
				t.Fatalf("%d facts after %v", len(facts), time.Since(start))
			}
		}
	})
}

// TestKeepIsPolite: what is due all at once is asked for a little at a time.
func TestKeepIsPolite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 20 * time.Millisecond, presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		s.Keep("live", slices.Concat(digests(10_000, "h.io/a%d"), digests(10_000, "g.io/a%d")), 0)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := p.probed.Load(); n != 1000 {
			t.Errorf("%d probes in 10 s at two registries, want 50 a second at each", n)
		}
		if n := p.most.Load(); n > 2*limits.ProbesPerRegistry/limits.RefreshShare {
			t.Errorf("%d at once, want at most %d at each registry", n, limits.ProbesPerRegistry/limits.RefreshShare)
		}
	})
}

// TestKeepComesAfterQuestions: a caller never waits behind a refresh, however slow the
// registry.
func TestKeepComesAfterQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 10 * time.Second, presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		s.Keep("live", digests(1000, "h.io/kept%d"), 0)
		time.Sleep(5 * time.Second) // as many refreshes as may be under way are
		start := time.Now()
		facts := s.Presence(t.Context(), digests(56, "h.io/asked%d"), policy.Freshness{})
		if took := time.Since(start); len(facts) != 56 || took != 10*time.Second {
			t.Errorf("%d facts after %v, want 56 at once", len(facts), took)
		}
	})
}

// TestKeptAndAskedFor: a caller and a refresh of the same location share one probe.
func TestKeptAndAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 10 * time.Second, presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		kept := digests(50, "h.io/a%d")
		s.Keep("live", kept, 0)
		time.Sleep(5 * time.Second) // 8 under way, 42 in the queue
		start := time.Now()
		facts := s.Presence(t.Context(), kept, policy.Freshness{})
		if took := time.Since(start); len(facts) != 50 || took != 10*time.Second || p.probed.Load() != 50 {
			t.Errorf("%d facts after %v and %d probes", len(facts), took, p.probed.Load())
		}
	})
}

// TestKeepForAWhile: the topic of a refused change ends by itself.
func TestKeepForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{presence: policy.Present}
		s := newTestStore(p)
		defer running(t, s)()
		s.Keep("refused: ImageTagMirrorSet apps", digests(10, "h.io/a%d"), 30*time.Minute)
		time.Sleep(31 * time.Minute)
		before := p.probed.Load()
		if before < 10 || before > 20 {
			t.Errorf("%d probes, want 10 and about 7", before)
		}
		time.Sleep(5 * time.Hour)
		synctest.Wait() // Run wakes at the same instant
		if topics, due := held(s); p.probed.Load() != before || topics != 0 || due != 0 {
			t.Errorf("%d probes, %d topics, %d due after the end", p.probed.Load()-before, topics, due)
		}
	})
}

// TestKeepBadNews: what is not there is looked for now and then, not every 2 s.
func TestKeepBadNews(t *testing.T) {
	for _, presence := range []policy.Presence{policy.Absent, policy.Denied, policy.Unreachable, policy.Unknown} {
		t.Run(presence.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fakeProber{presence: presence}
				s := newTestStore(p)
				defer running(t, s)()
				s.Keep("live", digests(10, "h.io/a%d"), 0)
				time.Sleep(time.Hour)
				if n := p.probed.Load(); n < 10*45 || n > 10*85 {
					t.Errorf("%d probes of 10 locations in an hour, want one a minute each", n)
				}
			})
		})
	}
}

// TestSparseCopyIsBadNews: an administrator who copies what is missing tries again at once.
func TestSparseCopyIsBadNews(t *testing.T) {
	l := Lifetimes{}.withDefaults()
	f := &policy.Fact{Presence: policy.Present, Missing: []string{"linux/arm64"}}
	if got := l.lifetimeOf(digested(), f); got != l.Absent {
		t.Errorf("a sparse copy counts for %v, want %v", got, l.Absent)
	}
}

// TestKeepTakesNothingAway: a registry that is down for a moment, when no caller
// asks, does not end facts before their time.
func TestKeepTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		p := ProberFunc(func(context.Context, mirrors.Location) policy.Fact {
			if down.Load() {
				return policy.Fact{Presence: policy.Unreachable}
			}
			return policy.Fact{Presence: policy.Present}
		})
		s := newTestStore(p)
		defer running(t, s)()
		kept := digests(10, "h.io/a%d")
		s.Keep("live", kept, 0)
		time.Sleep(10 * time.Second)
		present := func() (n int) {
			for _, f := range s.Presence(t.Context(), kept, policy.Freshness{}) {
				if f.Presence == policy.Present {
					n++
				}
			}
			return n
		}
		down.Store(true)
		time.Sleep(59 * time.Minute)
		if n := present(); n != 10 {
			t.Errorf("%d of 10 are present within their hour", n)
		}
		time.Sleep(2 * time.Minute)
		if n := present(); n != 0 {
			t.Errorf("%d of 10 are present after their hour", n)
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if n := present(); n != 10 {
			t.Errorf("%d of 10 are present again", n)
		}
	})
}

// TestKeepAfterARotation: under other credentials everything is asked for again soon.
func TestKeepAfterARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &changingProber{fakeProber: fakeProber{presence: policy.Present}}
		s := newTestStore(p)
		defer running(t, s)()
		s.Keep("live", digests(100, "h.io/a%d"), 0)
		time.Sleep(10 * time.Second)
		p.generation.Add(1)
		time.Sleep(10 * time.Second)
		if n := p.probed.Load(); n < 200 || n > 210 {
			t.Errorf("%d probes, want 200 and few others", n)
		}
	})
}

// TestKeepIsBounded: refused changes, however many, push neither each other's number
// nor the live configuration out of bounds.
func TestKeepIsBounded(t *testing.T) {
	for _, want := range []struct{ each, topics, due int }{{100, 5, 1000}, {1, maxTopics, 600 + maxTopics - 1}} {
		s := newTestStore(&fakeProber{}, func(o *Options) { o.maxKept = 1000 })
		defer s.Close()
		live := digests(600, "h.io/live%d")
		s.Keep("live", live, 0)
		for i := range 1000 {
			s.Keep(fmt.Sprintf("refused: ImageTagMirrorSet %d", i), digests(want.each, fmt.Sprintf("h.io/refused%d-", i)+"%d"), time.Hour)
		}
		if topics, due := held(s); topics != want.topics || due != want.due {
			t.Errorf("%d topics, %d locations, want %+v", topics, due, want)
		}
		for _, l := range live {
			if _, ok := s.keeper.due[l]; !ok {
				t.Fatalf("%s of the live configuration is not kept", l.Ref)
			}
		}
		if last := "h.io/refused999-0@"; !slices.ContainsFunc(slices.Collect(maps.Keys(s.keeper.due)), func(l mirrors.Location) bool {
			return strings.HasPrefix(l.Ref, last)
		}) {
			t.Error("the latest refused change is not kept")
		}
	}
}

// TestKnown: what is known is told without asking: good news while it is fresh, bad news
// until there is other, and neither under other credentials.
func TestKnown(t *testing.T) {
	for _, tt := range []struct {
		name string
		fact policy.Fact
		want bool // after two hours
	}{
		{"present", policy.Fact{Presence: policy.Present}, false},
		{"sparse", policy.Fact{Presence: policy.Present, Missing: []string{"linux/arm64"}}, true},
		{"absent", policy.Fact{Presence: policy.Absent}, true},
		{"unreachable", policy.Fact{Presence: policy.Unreachable}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &factProber{fact: tt.fact}
				s := newTestStore(p)
				defer s.Close()
				locs := digests(1, "h.io/a%d")
				if got := s.Known(locs); len(got) != 0 {
					t.Errorf("knows %v before anybody has asked", got)
				}
				s.Presence(t.Context(), locs, policy.Freshness{})
				if got := s.Known(locs); got.At(locs[0]).Presence != tt.fact.Presence {
					t.Errorf("knows %v at once, want %v", got, tt.fact.Presence)
				}
				time.Sleep(2 * time.Hour)
				if got := s.Known(locs); (len(got) == 1) != tt.want {
					t.Errorf("knows %v after two hours, want %t", got, tt.want)
				}
				p.generation.Add(1)
				if got := s.Known(locs); len(got) != 0 {
					t.Errorf("knows %v under other credentials", got)
				}
				if n := p.probed.Load(); n != 1 {
					t.Errorf("%d probes, want 1", n)
				}
			})
		})
	}
}

// A factProber finds one fact everywhere.
type factProber struct {
	ProberFunc         // the rest of a Prober
	fact               policy.Fact
	generation, probed atomic.Uint64
}

func (p *factProber) Probe(context.Context, mirrors.Location) policy.Fact {
	p.probed.Add(1)
	return p.fact
}

func (p *factProber) Generation() uint64 { return p.generation.Load() }

// TestKeepForADeadRegistry does not pile jobs up.
func TestKeepForADeadRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: time.Hour, presence: policy.Present} // ended by limits.ProbeTimeout
		s := newTestStore(p)
		stop := running(t, s)
		s.Keep("live", digests(5000, "h.io/a%d"), 0)
		for range 60 {
			time.Sleep(time.Minute)
			s.mu.Lock()
			jobs, queues := len(s.jobs), len(s.queues)
			s.mu.Unlock()
			if jobs > 10_000 || queues != 1 {
				t.Fatalf("%d jobs in %d queues", jobs, queues)
			}
		}
		stop()
		if s.running != 0 {
			t.Errorf("%d probes are left", s.running)
		}
	})
}
