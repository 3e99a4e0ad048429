package registry

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// TestQuayHTTP1: at 50 requests a second and address, no set of some size is known
// within one deadline. What there is by then is an honest part, nothing is called
// missing, and asking again goes on where it was.
func TestQuayHTTP1(t *testing.T) {
	limit := rate.NewLimiter(50, 10)
	s := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" && !limit.Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		healthy(w, r)
	}, (*httptest.Server).StartTLS)
	store := newStore(newTestClient(t, s), presence.Options{Lifetimes: presence.Lifetimes{Trouble: time.Nanosecond}})
	defer store.Close()
	locs := locations(150, host+"/a:%d")
	known := 0
	for round := 0; known < len(locs); round++ {
		if round == 100 {
			t.Fatalf("%d of %d after %d rounds", known, len(locs), round)
		}
		counts := count(store.Presence(within(t, 500*time.Millisecond), locs, policy.Freshness{}))
		if others := counts[policy.Absent] + counts[policy.Denied] + counts[policy.Mismatch]; others > 0 {
			t.Fatalf("round %d: %v", round, counts)
		}
		if round == 0 && counts[policy.Present] == len(locs) {
			t.Errorf("all at once: nothing was limited")
		}
		if counts[policy.Present] < known {
			t.Errorf("round %d: %d known after %d", round, counts[policy.Present], known)
		}
		known = counts[policy.Present]
	}
}

// TestNoFalseMissing: a registry that cuts half of all answers off, or fails, never has
// an image called missing.
func TestNoFalseMissing(t *testing.T) {
	images := campaign.Times(2000, 100_000)
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			switch rand.N(4) {
			case 0:
				panic(http.ErrAbortHandler)
			case 1:
				w.WriteHeader(http.StatusBadGateway)
				return
			}
		}
		healthy(w, r)
	})
	store := newStore(newTestClient(t, s), presence.Options{})
	defer store.Close()
	counts := count(store.Presence(t.Context(), locations(images, host+"/a:%d"), policy.Freshness{}))
	if counts[policy.Present]+counts[policy.Unreachable] != images || counts[policy.Present] == 0 {
		t.Errorf("got %v", counts)
	}
	t.Logf("%d of %d were got over", counts[policy.Present], images)
}

// TestFlappingMiss: a miss is not repeated from memory, and what was found is not
// doubted before its time.
func TestFlappingMiss(t *testing.T) {
	var there atomic.Bool
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" && !there.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		healthy(w, r)
	})
	store := newStore(newTestClient(t, s), presence.Options{Lifetimes: presence.Lifetimes{Absent: time.Nanosecond}})
	defer store.Close()
	ask := func() policy.Presence {
		return store.Presence(t.Context(), []mirrors.Location{digested()}, policy.Freshness{}).At(digested()).Presence
	}
	for i, tc := range []struct {
		there bool
		want  policy.Presence
	}{{false, policy.Absent}, {false, policy.Absent}, {true, policy.Present}, {false, policy.Present}} {
		there.Store(tc.there)
		if got := ask(); got != tc.want {
			t.Errorf("question %d: %v, want %v", i, got, tc.want)
		}
	}
}

// TestTokensThatDoNotLast: each is good for one request, whatever it says of itself.
func TestTokensThatDoNotLast(t *testing.T) {
	var mu sync.Mutex
	good := map[string]bool{}
	fetched := 0
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case r.URL.Path == "/token":
			fetched++
			good[fmt.Sprint("t", fetched)] = true
			fmt.Fprintf(w, `{"token":"t%d","expires_in":0}`, fetched)
		case good[token]:
			delete(good, token)
			serveManifest(w, r)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", ownRealm()))
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	c := newTestClient(t, s)
	for range 5 {
		wantFact(t, probe(t, c, tagged()), policy.Present)
	}
	if fetched > 5 {
		t.Errorf("%d tokens for 5 questions", fetched)
	}
}

// TestRetryAfterThatPasses: what a registry says with a 429, and all is well later.
func TestRetryAfterThatPasses(t *testing.T) {
	for _, header := range []string{"0", "1", "soon", "-5", time.Now().Add(time.Second).UTC().Format(http.TimeFormat)} {
		t.Run(header, func(t *testing.T) {
			var asked atomic.Int32
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if !ping(w, r) {
					if asked.Add(1) == 1 {
						w.Header().Set("Retry-After", header)
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					serveManifest(w, r)
				}
			})
			wantFact(t, probe(t, newTestClient(t, s), tagged()), policy.Present)
		})
	}
}
