package registry

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// count returns how many facts there are of each kind.
func count(facts policy.Facts) map[policy.Presence]int {
	counts := map[policy.Presence]int{}
	for _, f := range facts {
		counts[f.Presence]++
	}
	return counts
}

// TestFlakyRegistry: resets and 5xx never read as a missing image, and most of them
// are got over.
func TestFlakyRegistry(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		fault   http.HandlerFunc
		percent int
	}{
		{"resets", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 10},
		{"resets", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 50},
		{"half an answer", cutOff, 10},
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 10},
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 50},
	} {
		t.Run(fmt.Sprint(tc.reason, " ", tc.percent), func(t *testing.T) {
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v2/" && rand.N(100) < tc.percent {
					tc.fault(w, r)
					return
				}
				healthy(w, r)
			})
			store := newStore(newTestClient(t, s), presence.Options{})
			defer store.Close()
			counts := count(store.Presence(t.Context(), locations(300, host+"/a:%d"), policy.Freshness{}))
			if counts[policy.Present]+counts[policy.Unreachable] != 300 {
				t.Errorf("got %v", counts)
			}
			if tc.percent == 10 && counts[policy.Present] < 295 {
				t.Errorf("only %d of 300 were got over", counts[policy.Present])
			}
		})
	}
}

// TestDeadInDifferentWays: 2,000 images behind a registry that cannot be used cost
// seconds, and few requests.
func TestDeadInDifferentWays(t *testing.T) {
	const short = 2 * time.Second // of silence; asked one by one, 64 at a time, all would take a minute
	for _, tc := range []struct {
		reason  string
		handler http.HandlerFunc
		timeout time.Duration // 0: longer than anything takes
		detail  string
	}{
		{"the ping fails", status500, 0, "is failing"},
		{"manifests are silent", byMethod(silent, silent), short, "did not answer within 2s"},
		{"manifests fail", byMethod(status500, status500), 0, "is failing"},
		{"the token server fails", bearer(ownRealm, http.HandlerFunc(status500)), 0, "is failing"},
		{"the token server is silent", bearer(ownRealm, http.HandlerFunc(silent)), short, "did not answer within 2s"},
		{"the token server has no tokens", bearer(ownRealm, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "{}")
		})), 0, "something that is not a token"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, tc.handler)
			c := newTestClient(t, s, func(o *clientOptions) { o.Timeout = cmp.Or(tc.timeout, o.Timeout) })
			store := newStore(c, presence.Options{})
			defer store.Close()
			facts := store.Presence(t.Context(), images(2000), policy.Freshness{})
			if n := count(facts)[policy.Unreachable]; n != 2000 {
				t.Errorf("%d of 2,000 are unreachable: %v", n, count(facts))
			}
			for _, f := range facts {
				if !strings.Contains(f.Detail, host) || !strings.Contains(f.Detail, tc.detail) {
					t.Errorf("detail = %q", f.Detail)
					break
				}
			}
			if n := len(s.requests()); n > 500 { // each takes its time, of which the machine may need more
				t.Errorf("%d requests", n)
			}
		})
	}
}

func status500(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// TestRecovery: a registry that comes back is used again without an administrator's help.
func TestRecovery(t *testing.T) {
	var well atomic.Bool
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if !well.Load() {
			status500(w, r)
			return
		}
		healthy(w, r)
	})
	c := newTestClient(t, s)
	wantFact(t, probe(t, c, tagged()), policy.Unreachable)
	well.Store(true)
	deadline := time.After(time.Minute)
	for probe(t, c, tagged()).Presence != policy.Present {
		select {
		case <-deadline:
			t.Fatal("it is not used again")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestManyHosts: a mirror set can name any number of hosts.
func TestManyHosts(t *testing.T) {
	const hosts = 512 + 50 // some more than are kept
	s := newTLSServer(t, healthy)
	c := newTestClient(t, s, func(o *clientOptions) {
		o.Timeout, o.DialTimeout = 5*time.Minute, 5*time.Minute // many handshakes at once
		for i := range hosts {
			o.Resolve[fmt.Sprintf("h%d.example.com", i)] = s.address()
		}
	})
	store := newStore(c, presence.Options{})
	defer store.Close()
	for locs := range slices.Chunk(locations(hosts, "h%d.example.com/a:1"), 32) {
		facts := store.Presence(t.Context(), locs, policy.Freshness{})
		if n := count(facts)[policy.Present]; n != len(locs) {
			t.Errorf("got %v", count(facts))
		}
	}
}

// TestBadAnswersToHead: the Docker Hub is asked by HEAD, and nothing but GET says whether an image is there and whether a registry is well.
func TestBadAnswersToHead(t *testing.T) {
	for _, tc := range []struct {
		reason string
		head   http.HandlerFunc
	}{
		{"500", status500},
		{"503 that wants to be left alone", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}},
		{"403", status(http.StatusForbidden, "")},
		{"a page", serve("text/html", "", "<html>")},
		{"no answer but the end of the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"a redirect to where nothing is sent", redirectTo("https://169.254.169.254/")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			registry := newShop()
			registry.add("1", ociManifest, imageOf("{}", "layer"))
			registry.hold("{}", "layer")
			s := newTLSServer(t, byMethod(tc.head, registry.serve))
			c := newTestClient(t, s, hubAt(s))
			store := newStore(c, presence.Options{})
			defer store.Close()
			locs := locations(200, "docker.io/library/a%d:1")
			for i := range locs {
				locs[i].Depth, locs[i].Insecure = mirrors.Depth(i%3), true
			}
			if n := count(store.Presence(t.Context(), locs, policy.Freshness{}))[policy.Present]; n != len(locs) {
				t.Errorf("%d of %d are present", n, len(locs))
			}
		})
	}
}
