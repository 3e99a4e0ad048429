package registry

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// A loadServer is a registry with tokens, a delay and, if limits are set, throttles.
type loadServer struct {
	*server
	delay     time.Duration
	manifests *rate.Limiter // answers 429 beyond it
	tokens    *rate.Limiter
	refused   atomic.Int32
	asked     atomic.Int32
}

func newLoadServer(t testing.TB, delay time.Duration) *loadServer {
	l := &loadServer{delay: delay}
	l.server = newTLSServer(t, l.answer(bearer(ownRealm, &tokenServer{})))
	return l
}

// answer delays and throttles what inner answers.
func (l *loadServer) answer(inner http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		time.Sleep(l.delay)
		limit := l.manifests
		if r.URL.Path == "/token" {
			limit = l.tokens
		}
		if limit != nil && r.URL.Path != "/v2/" && !limit.Allow() {
			l.refused.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		inner(w, r)
	}
}

// images returns n locations in repositories of ten images each, repository by
// repository.
func images(n int) []mirrors.Location {
	locs := make([]mirrors.Location, n)
	for i := range locs {
		locs[i].Ref = fmt.Sprintf("%s/team/app%d@sha256:%s", host, i/10, manifestSum.Encoded())
		if i%10 > 0 {
			locs[i].Ref = fmt.Sprintf("%s/team/app%d:%d", host, i/10, i%10)
		}
	}
	return locs
}

// bare is a transport to s as that of a client is, with nothing that a client makes of it.
func bare(t testing.TB, s *loadServer) http.RoundTripper {
	t.Helper()
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address())
		},
		TLSClientConfig:     &tls.Config{RootCAs: certificates.OfHTTPTest()},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: limits.RequestsPerRegistry,
	}
}

// floor asks for the same with nothing but net/http, the least that can be done: one
// ping, a token for 50 repositories each, a GET for each image, 64 at a time.
func floor(t testing.TB, s *loadServer, locs []mirrors.Location) time.Duration {
	t.Helper()
	bare := http.Client{Transport: bare(t, s)}
	start := time.Now()
	get := func(method, url, token string) (*http.Response, error) {
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", token)
		return bare.Do(req)
	}
	resp, err := get(http.MethodGet, "https://"+host+"/v2/", "")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	tokens := map[string]string{}
	var batch []string
	fetch := func() {
		query := url.Values{"scope": batch}
		resp, err := get(http.MethodGet, ownRealm()+"?"+query.Encode(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() // read to its end
		var body struct{ Token string }
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		for _, scope := range batch {
			tokens[scope] = body.Token
		}
		batch = nil
	}
	targets := make([]target, len(locs))
	for i, l := range locs {
		targets[i], _ = parseTarget(l)
		scope := scopeOf(targets[i])
		if _, ok := tokens[scope]; !ok {
			tokens[scope] = ""
			if batch = append(batch, scope); len(batch) == 50 {
				fetch()
			}
		}
	}
	if len(batch) > 0 {
		fetch()
	}
	var group errgroup.Group
	group.SetLimit(64)
	for _, target := range targets {
		group.Go(func() error {
			resp, err := get(http.MethodGet, fmt.Sprintf("https://%s/v2/%s/manifests/%s", host, target.Path(), target.identifier()),
				"Bearer "+tokens[scopeOf(target)])
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func scopeOf(t target) string { return "repository:" + t.Path() + ":pull" }

// verify asks a new store about locs and returns how long that took.
func verify(t testing.TB, s *loadServer, locs []mirrors.Location, adjust ...func(*clientOptions)) (time.Duration, *presence.Store) {
	t.Helper()
	store := newStore(newTestClient(t, s.server, adjust...), presence.Options{})
	t.Cleanup(store.Close)
	start := time.Now()
	facts := store.Presence(t.Context(), locs, policy.Freshness{})
	took := time.Since(start)
	for _, l := range locs {
		if facts.At(l).Presence != policy.Present {
			t.Fatalf("%s: %v: %s", l.Ref, facts.At(l).Presence, facts.At(l).Detail)
		}
	}
	return took, store
}

// TestLoad verifies 2,000 images in 200 repositories and compares that with the
// floor in the same run. Times are reported, not asserted: the machine may be busy.
func TestLoad(t *testing.T) {
	locs := images(2000)
	s := newLoadServer(t, 20*time.Millisecond)
	bare := floor(t, s, locs)
	bareRequests := s.asked.Swap(0)
	took, store := verify(t, s, locs)
	requests := s.asked.Swap(0)
	t.Logf("floor: %v, %d requests; store: %v, %d requests; ratio %.2f",
		bare.Round(time.Millisecond), bareRequests, took.Round(time.Millisecond), requests, float64(took)/float64(bare))
	if requests > 2010 {
		t.Errorf("%d requests, want at most 2,010", requests)
	}
	start := time.Now()
	for range 100 {
		store.Presence(t.Context(), locs, policy.Freshness{})
	}
	t.Logf("warm: %v", time.Since(start)/100)
	if n := s.asked.Load(); n != 0 {
		t.Errorf("%d requests for facts that are fresh", n)
	}
}

// BenchmarkPresence is who asks about many images, and how fast: nothing but net/http, a store that knows nothing yet, the same where
// the registry throttles as Quay does, and go-containerregistry, by a question for each image and by one Puller.
func BenchmarkPresence(b *testing.B) {
	quay := func(t testing.TB, s *loadServer, locs []mirrors.Location) time.Duration {
		s.manifests, s.tokens = rate.NewLimiter(500, 50), rate.NewLimiter(120, 2)
		took, _ := verify(t, s, locs, func(o *clientOptions) { o.Rates = map[string]float64{host: wire.DefaultRates["quay.io"]} })
		return took
	}
	for _, n := range []int{200, 2000, 20_000} {
		for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			locs := images(n)
			for _, who := range []struct {
				name string
				ask  func(testing.TB, *loadServer, []mirrors.Location) time.Duration
			}{
				{"floor", floor},
				{"store", func(t testing.TB, s *loadServer, locs []mirrors.Location) time.Duration {
					took, _ := verify(t, s, locs)
					return took
				}},
				{"store-at-quay", quay},
				{"head", func(t testing.TB, s *loadServer, locs []mirrors.Location) time.Duration {
					return byOthers(t, s, locs, false)
				}},
				{"puller", func(t testing.TB, s *loadServer, locs []mirrors.Location) time.Duration {
					return byOthers(t, s, locs, true)
				}},
			} {
				b.Run(fmt.Sprintf("%d-images/%s/%s", n, delay, who.name), func(b *testing.B) {
					s := newLoadServer(b, delay)
					for b.Loop() {
						who.ask(b, s, locs)
					}
					b.ReportMetric(float64(s.asked.Load())/float64(b.N), "requests/op")
					b.ReportMetric(float64(s.refused.Load())/float64(b.N), "429/op")
				})
			}
		}
	}
}

// byOthers asks by go-containerregistry.
func byOthers(t testing.TB, s *loadServer, locs []mirrors.Location, shared bool) time.Duration {
	t.Helper()
	transport := remote.WithTransport(bare(t, s))
	puller, err := remote.NewPuller(transport)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(64)
	for _, l := range locs {
		group.Go(func() error {
			ref, err := name.ParseReference(l.Ref)
			switch {
			case err != nil:
			case shared:
				_, err = puller.Head(t.Context(), ref)
			default:
				_, err = remote.Head(ref, transport, remote.WithContext(t.Context()))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkWarm is a verification of 2,000 images that are all known.
func BenchmarkWarm(b *testing.B) {
	locs := images(2000)
	_, store := verify(b, newLoadServer(b, 0), locs)
	for b.Loop() {
		store.Presence(b.Context(), locs, policy.Freshness{})
	}
}
