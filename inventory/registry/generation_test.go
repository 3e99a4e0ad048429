package registry

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

func TestSetCredentials(t *testing.T) {
	const fresh = "user:new"
	s := newTLSServer(t, challenged(`Basic realm="registry"`, basic(fresh)))
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})))
	wantFact(t, probe(t, c, tagged()), policy.Denied)
	generation := c.Generation()

	c.SetCredentials(credentials(t, map[string]string{host: canary}))
	if c.Generation() != generation {
		t.Error("equal credentials count as a change")
	}
	c.SetCredentials(credentials(t, map[string]string{host: fresh}))
	before := len(s.requests())
	wantFact(t, probe(t, c, tagged()), policy.Present)
	for _, r := range s.requests()[before:] {
		if r.authorization == basic(canary) {
			t.Error("the old password was used again")
		}
	}
	if c.Generation() == generation {
		t.Error("the change does not count")
	}
}

func TestSetCredentialsDropsTokens(t *testing.T) {
	tokens := &tokenServer{}
	s := newTLSServer(t, bearer(ownRealm, tokens))
	c := newTestClient(t, s)
	wantFact(t, probe(t, c, tagged()), policy.Present)
	c.SetCredentials(credentials(t, map[string]string{host: canary}))
	wantFact(t, probe(t, c, tagged()), policy.Present)
	if n := tokens.fetched.Load(); n != 2 {
		t.Errorf("%d tokens, want one for each credential", n)
	}
}

func TestSetTrust(t *testing.T) {
	s := newTLSServer(t, healthy)
	c := newTestClient(t, s)
	pool := certificates.OfHTTPTest()
	wantFact(t, probe(t, c, tagged()), policy.Present)
	c.SetTrust(nil, nil, nil)
	wantFact(t, probe(t, c, tagged()), policy.Unreachable, "unknown authority")
	c.SetTrust(pool, nil, nil)
	wantFact(t, probe(t, c, tagged()), policy.Present)
}

// TestSetTrustIsOneChange: however much of it is new, and none if nothing is.
func TestSetTrustIsOneChange(t *testing.T) {
	c := NewClient(wire.Options{}, nil)
	defer c.Close()
	before := c.Generation()
	all := func() {
		c.SetTrust(certificates.OfHTTPTest(), map[string]*x509.CertPool{host: certificates.OfHTTPTest()}, http.ProxyFromEnvironment)
	}
	if all(); c.Generation() != before+1 {
		t.Errorf("generation %d after %d", c.Generation(), before)
	}
	before = c.Generation() + 1 // for taking the proxy away
	for range 3 {
		if c.SetTrust(certificates.OfHTTPTest(), map[string]*x509.CertPool{host: certificates.OfHTTPTest()}, nil); c.Generation() != before {
			t.Errorf("generation %d, want %d", c.Generation(), before)
		}
	}
}

// TestNoErrorOutlivesItsCause: what a registry said to an old password, or an old CA
// of it, is not repeated once there is a new one; though it would be for a while.
func TestNoErrorOutlivesItsCause(t *testing.T) {
	s := newTLSServer(t, challenged("Basic", basic(canary)))
	c := newTestClient(t, s)
	store := newStore(c, presence.Options{Lifetimes: presence.Lifetimes{Trouble: time.Hour}})
	defer store.Close()
	ask := func() policy.Fact {
		return *store.Presence(t.Context(), []mirrors.Location{tagged()}, policy.Freshness{}).At(tagged())
	}
	wantFact(t, ask(), policy.Denied)
	c.SetCredentials(credentials(t, map[string]string{host: canary}))
	wantFact(t, ask(), policy.Present)
	c.SetTrust(nil, nil, nil)
	wantFact(t, ask(), policy.Unreachable, "unknown authority")
	c.SetTrust(nil, map[string]*x509.CertPool{host: certificates.OfHTTPTest()}, nil)
	wantFact(t, ask(), policy.Present)
}

// TestNewProxy: the next probe uses the new proxy, on a new connection, and no
// Fact gives the proxy's password away.
func TestNewProxy(t *testing.T) {
	s := newTLSServer(t, healthy)
	var asked atomic.Int32
	proxy := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Proxy-Authorization") != basic(canary) {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		tunnel(t, w, s.address())
	})
	by := func(password string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("user", password), Host: proxy.address()})
	}
	pool := certificates.OfHTTPTest()
	c := NewClient(wire.Options{RootCAs: pool, Proxy: by("canary")}, nil)
	defer c.Close()
	wantFact(t, probe(t, c, tagged()), policy.Present)
	generation := c.Generation()
	c.SetTrust(pool, nil, by("canary-of-old"))
	if c.Generation() == generation {
		t.Error("the change does not count")
	}
	wantFact(t, probe(t, c, tagged()), policy.Unreachable, "Proxy Authentication Required")
	c.SetTrust(pool, nil, by("canary"))
	wantFact(t, probe(t, c, tagged()), policy.Present)
	if n := asked.Load(); n != 3 {
		t.Errorf("%d connections to the proxy, want one after each change", n)
	}
}

// TestChangeMeetsProbe: a probe that is under way when the credentials change starts
// again with the new ones.
func TestChangeMeetsProbe(t *testing.T) {
	const fresh = "user:new"
	arrived := make(chan struct{}, 10)
	var changed atomic.Bool
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" && !changed.Load() {
			arrived <- struct{}{}
			<-r.Context().Done()
			return
		}
		challenged("Basic", basic(fresh))(w, r)
	})
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})))
	facts := make(chan policy.Fact)
	go func() { facts <- c.Probe(context.Background(), tagged()) }()
	<-arrived
	changed.Store(true)
	c.SetCredentials(credentials(t, map[string]string{host: fresh}))
	wantFact(t, <-facts, policy.Present)
}

// TestCancelledCaller: one caller that leaves does not spoil the ping or the token
// for another.
func TestCancelledCaller(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	tokens := &tokenServer{}
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			arrived <- struct{}{}
			<-release
		}
		bearer(ownRealm, tokens)(w, r)
	})
	c := newTestClient(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan policy.Fact)
	go func() { first <- c.Probe(ctx, tagged()) }()
	<-arrived
	second := make(chan policy.Fact)
	go func() { second <- c.Probe(t.Context(), tagged()) }()
	cancel()
	wantFact(t, <-first, policy.Unknown)
	close(release)
	wantFact(t, <-second, policy.Present)
	if n := tokens.fetched.Load(); n != 1 {
		t.Errorf("%d tokens, want 1", n)
	}
}

func TestProbeIsUnknownIfTheCallerLeaves(t *testing.T) {
	s := newTLSServer(t, silent)
	c := newTestClient(t, s)
	got := c.Probe(within(t, 50*time.Millisecond), tagged())
	if got.Presence != policy.Unknown || !got.Time.IsZero() {
		t.Errorf("got %+v", got)
	}
	c.Close()
	wantFact(t, c.Probe(t.Context(), tagged()), policy.Unknown)
}

func TestManyProbesAndChanges(t *testing.T) {
	s := newTLSServer(t, bearer(ownRealm, &tokenServer{}))
	c := newTestClient(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := c.Probe(t.Context(), tagged()); got.Presence != policy.Present {
					t.Errorf("got %v: %s", got.Presence, got.Detail)
				}
			}
		})
	}
	for _, entry := range []string{"a", "b", "c"} {
		c.SetCredentials(credentials(t, map[string]string{entry: canary}))
	}
	wg.Wait()
}
