package presence

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestRecall: for a while, misses are good enough to plan by, and marked as what they are.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{presence: policy.Absent}
		s := newTestStore(p)
		defer s.Close()
		locs := []mirrors.Location{tagged()}
		s.Presence(t.Context(), locs, policy.Freshness{})
		time.Sleep(time.Second)
		if f := s.Presence(t.Context(), locs, policy.Freshness{Recalled: true}).At(tagged()); f.Presence != policy.Absent || f.Recalled || p.probed.Load() != 1 {
			t.Errorf("while it is fresh: %+v after %d probes", f, p.probed.Load())
		}
		time.Sleep(39 * time.Second)
		if f := s.Presence(t.Context(), locs, policy.Freshness{Recalled: true}).At(tagged()); f.Presence != policy.Absent || !f.Recalled || !strings.HasSuffix(f.Detail, "; that was 40s ago") || p.probed.Load() != 1 {
			t.Errorf("soon after: %+v after %d probes", f, p.probed.Load())
		}
		time.Sleep(50 * time.Second)
		if f := s.Presence(t.Context(), locs, policy.Freshness{Recalled: true}).At(tagged()); f.Recalled || p.probed.Load() != 2 {
			t.Errorf("later: %+v after %d probes, want 2", f, p.probed.Load())
		}
		time.Sleep(10 * time.Second)
		if f := s.Presence(t.Context(), locs, policy.Freshness{}).At(tagged()); f.Recalled || p.probed.Load() != 3 {
			t.Errorf("where it decides: %+v after %d probes, want 3", f, p.probed.Load())
		}
	})
}

// TestRecalledFactsAreShared: a registry that lacks very many images has them as one, also after a while.
func TestRecalledFactsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(&fakeProber{presence: policy.Absent})
		defer s.Close()
		locs := []mirrors.Location{tagged(), {Ref: tagged().Ref + "x"}}
		s.Presence(t.Context(), locs, policy.Freshness{})
		time.Sleep(10 * time.Second)
		if facts := s.Presence(t.Context(), locs, policy.Freshness{Recalled: true}); !facts[locs[0]].Recalled || facts[locs[0]] != facts[locs[1]] {
			t.Errorf("%+v and %+v", facts[locs[0]], facts[locs[1]])
		}
	})
}

// TestOnlyMissesAreRecalled: nothing else is repeated after its time.
func TestOnlyMissesAreRecalled(t *testing.T) {
	for _, presence := range []policy.Presence{policy.Present, policy.Denied, policy.Unreachable, policy.Mismatch, policy.Incomplete} {
		synctest.Test(t, func(t *testing.T) {
			p := &fakeProber{presence: presence}
			brief := Lifetimes{PresentTag: time.Second, Trouble: time.Second, Absent: time.Second}
			s := newTestStore(p, func(o *Options) { o.Lifetimes = brief })
			defer s.Close()
			s.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{})
			time.Sleep(10 * time.Second)
			if f := s.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{Recalled: true}).At(tagged()); f.Recalled || p.probed.Load() != 2 {
				t.Errorf("%v: %+v after %d probes", presence, f, p.probed.Load())
			}
		})
	}
}

// TestRecallUnderOtherCredentials: a miss under other credentials does not count.
func TestRecallUnderOtherCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &changingProber{fakeProber: fakeProber{presence: policy.Absent}}
		s := newTestStore(p)
		defer s.Close()
		s.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{})
		time.Sleep(10 * time.Second)
		p.generation.Add(1)
		if f := s.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{Recalled: true}).At(tagged()); f.Recalled || p.probed.Load() != 2 {
			t.Errorf("%+v after %d probes", f, p.probed.Load())
		}
	})
}

// TestWhatIsKnownIsAskedLast: a registry that cannot answer everything in time is asked
// about what is not known first, in the caller's order; the misses that there was no time
// for are still misses.
func TestWhatIsKnownIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{takes: 100 * time.Millisecond, presence: policy.Absent}
		s := newTestStore(p, func(o *Options) { o.perRegistry = 1 })
		defer s.Close()
		dead, fresh := locations(100, "h.io/dead:%d"), locations(20, "h.io/new:%d")
		s.Presence(t.Context(), dead, policy.Freshness{})
		time.Sleep(10 * time.Second)
		p.mu.Lock()
		p.order = nil
		p.mu.Unlock()
		ctx, cancel := timeout(3050 * time.Millisecond)
		defer cancel()
		facts := s.Presence(ctx, slices.Concat(dead, fresh), policy.Freshness{})
		var recalled, asked int
		for _, f := range facts {
			switch {
			case f.Recalled:
				recalled++
			case f.Presence == policy.Absent:
				asked++
			}
		}
		if asked != 30 || recalled != 90 {
			t.Errorf("%d asked for and %d recalled, want 30 and 90", asked, recalled)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, l := range slices.Concat(fresh, dead[:10]) {
			if p.order[i] != l.Ref {
				t.Fatalf("asked for %s as number %d, want %s", p.order[i], i, l.Ref)
			}
		}
	})
}

// TestRenewOnce: callers that began before a miss was learned share that lookup, however late their turn
// comes; one that began after it has the miss looked up again once it is no longer fresh.
func TestRenewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{presence: policy.Absent}
		s := newTestStore(p)
		defer s.Close()
		locs := []mirrors.Location{tagged()}
		began := time.Now()
		s.Presence(t.Context(), locs, policy.Freshness{Since: began})
		for range 50 {
			time.Sleep(500 * time.Millisecond)
			f := s.Presence(t.Context(), locs, policy.Freshness{Since: began}).At(tagged())
			if since := time.Since(began); f.Presence != policy.Absent || f.Recalled || strings.HasSuffix(f.Detail, " ago") != (since >= 2*time.Second) {
				t.Fatalf("after %s: %+v", since, f)
			}
		}
		if n := p.probed.Load(); n != 1 {
			t.Errorf("%d probes for those that began together", n)
		}
		s.Presence(t.Context(), locs, policy.Freshness{Since: time.Now()})
		if n := p.probed.Load(); n != 2 {
			t.Errorf("%d probes with one that began later, want 2", n)
		}
	})
}
