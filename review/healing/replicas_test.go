package healing

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// throttle has a registry answer requests with 429.
func (s *server) throttle(retryAfter string, is func(*http.Request) bool) {
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !is(r) {
			return false
		}
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
}

// TestThrottledNowAndThen: a registry that limits the rate of requests gets its image when it says, and what it has
// refused counts, too.
func TestThrottledNowAndThen(t *testing.T) {
	s := newStage(t, 3)
	h := s.process(t)
	s.remove(t, "app000", "app001", "app002")
	for _, at := range []*server{s.source, s.mirror} {
		var n atomic.Int64
		at.throttle("1", func(*http.Request) bool { return n.Add(1)%7 == 2 })
	}
	h.round(t)
	for _, app := range apps(s.digests) {
		if !s.has(t, app) {
			t.Errorf("the mirror lacks %s", app)
		}
	}
	wantEvents(t, s, "MirrorHealed: 3 images copied back")
	wantCounted(t, s, h)
}

// TestThrottledForLong: a registry that wants to be left alone is, by rounds that do not wait for it either.
func TestThrottledForLong(t *testing.T) {
	for name, is := range map[string]func(*http.Request) bool{
		"writes":     func(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead },
		"everything": func(*http.Request) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 3)
			h := s.process(t)
			s.remove(t, "app000", "app001", "app002")
			lost, rounds := h.lost(t), int64(3)
			s.mirror.throttle("600", is)
			h.pass(t, time.Now(), lost)
			wantEvents(t, s, "limits the rate of requests")
			asked, _, puts := s.mirror.counts()
			if len(puts) > len(lost) {
				t.Errorf("manifests put: %v", puts)
			}
			for range rounds {
				h.pass(t, time.Now(), lost) // which comes too early
				h.aMinuteLater()
				h.pass(t, time.Now(), lost)
			}
			if again, _, _ := s.mirror.counts(); again > asked+rounds { // in each, whether it answers at all
				t.Errorf("asked %d times more, before the time that it named", again-asked)
			}
			wantCounted(t, s, h)
			if got := h.value(t, "mirrorset_guard_heal_waiting_images", string(failed)); got != 3 {
				t.Errorf("the metric says that %v failed, want 3", got)
			}
		})
	}
}

// TestThrottledBudget: what is refused is paid for, and no more is asked than the budget allows.
func TestThrottledBudget(t *testing.T) {
	s := newStage(t, 8)
	s.settings.Limit.Requests = 30
	h := s.process(t)
	s.remove(t, apps(s.digests)...)
	var n atomic.Int64
	s.mirror.throttle("0", func(*http.Request) bool { return n.Add(1)%2 == 0 })
	for range 3 {
		h.aMinuteLater()
		h.round(t)
	}
	wantCounted(t, s, h)
	if got := h.value(t, "mirrorset_guard_heal_waiting_images", string(budget)); got <= 0 {
		t.Errorf("%v images wait for the budget", got)
	}
}

// wantCounted holds that what registries were asked was counted, and is within the budget. More is counted: attempts
// to ask by TLS, which these registries do not know.
func wantCounted(t *testing.T, s *stage, h *healer) {
	t.Helper()
	source, _, _ := s.source.counts()
	mirror, bytes, _ := s.mirror.counts()
	if counted := h.value(t, "mirrorset_guard_heal_requests_total", ""); counted < float64(source+mirror) || counted > float64(source+mirror+10) {
		t.Errorf("%v requests were counted, the registries got %d", counted, source+mirror)
	}
	if source+mirror > s.settings.Limit.Requests || bytes > s.settings.Limit.Bytes {
		t.Errorf("%d requests and %d bytes, the budget is %+v", source+mirror, bytes, s.settings.Limit)
	}
	used := h.options.Lease.last.Spent.used(time.Now())
	if used.Requests < source+mirror || used.Bytes < bytes {
		t.Errorf("%d requests and %d bytes, written down are %+v", source+mirror, bytes, used)
	}
}
