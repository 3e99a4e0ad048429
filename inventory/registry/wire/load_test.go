package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// These tests look at the pace of those who ask as the guard does: by a Store.

// TestThrottledLikeQuay keeps below published limits where they are known (500
// manifests a second with a burst of 50; 120 tokens a second with a burst of 2), and
// finds its pace where they are not. The clock is that of the test: a machine that halts would send
// all at once what it has held up.
func TestThrottledLikeQuay(t *testing.T) {
	for _, tc := range []struct {
		reason string
		rates  map[string]float64
		most   int32 // answers 429
	}{
		{"the limit is known", map[string]float64{wire.Host: 450}, 0},
		{"the limit is not known", map[string]float64{}, 200},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			certificate, now := wire.NewServer(t, nil).TLS.Certificates[0], time.Now()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(now)) // certificates are not valid yet when a bubble begins
				if n := refusals(t, certificate, tc.rates); n > tc.most {
					t.Errorf("%d answers 429, want at most %d", n, tc.most)
				}
			})
		})
	}
}

// refusals returns how often a registry with Quay's limits answers 429 while 2,000
// images are verified.
func refusals(t *testing.T, certificate tls.Certificate, rates map[string]float64) int32 {
	t.Helper()
	manifests, tokens, refused := rate.NewLimiter(500, 50), rate.NewLimiter(120, 2), new(atomic.Int32)
	handler := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		limit := manifests
		if r.URL.Path == "/token" {
			limit = tokens
		}
		if r.URL.Path != "/v2/" && !limit.Allow() {
			refused.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json") // which answers of failure do not mind
		wire.Bearer(w, r)
	}
	pipes := make(pipes)
	s := http.Server{Handler: http.HandlerFunc(handler), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ErrorLog: log.New(io.Discard, "", 0)}
	go s.ServeTLS(pipes, "", "") //nolint:errcheck // it ends with s
	defer s.Close()              //nolint:errcheck // nobody listens any more
	c := registry.NewClient(wire.Options{RootCAs: certificates.OfHTTPTest(), Resolve: map[string]string{wire.Host: "127.0.0.1:1"}, Rates: rates}, nil)
	defer c.Close()
	c.DialBy(pipes.dial)
	took := verify(t, c, 2000)
	t.Logf("%v, %d answers 429", took.Round(time.Millisecond), refused.Load())
	return refused.Load()
}

// verify asks a new store about n images in repositories of ten images each, and returns how long that took.
func verify(t *testing.T, c *registry.Client, n int) time.Duration {
	t.Helper()
	locs := make([]mirrors.Location, n)
	for i := range locs {
		locs[i].Ref = fmt.Sprintf("%s/team/app%d@%s", wire.Host, i/10, digest.FromString("{}"))
		if i%10 > 0 {
			locs[i].Ref = fmt.Sprintf("%s/team/app%d:%d", wire.Host, i/10, i%10)
		}
	}
	store := presence.NewStore(c, presence.Options{})
	defer store.Close()
	start := time.Now()
	facts := store.Presence(t.Context(), locs, policy.Freshness{})
	took := time.Since(start)
	for _, l := range locs {
		if facts.At(l).Presence != policy.Present {
			t.Fatalf("%s: %v: %s", l.Ref, facts.At(l).Presence, facts.At(l).Detail)
		}
	}
	return took
}

// TestHTTP1: without HTTP/2 there are about as many connections as requests at once,
// and they are used again. About, because net/http gives a connection back a moment
// after its answer was read.
func TestHTTP1(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Millisecond) // or one connection might do
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		fmt.Fprint(w, "{}")
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	c := registry.NewClient(wire.Options{
		RootCAs: certificates.OfHTTPTest(), Resolve: map[string]string{wire.Host: s.Listener.Addr().String()}, Timeout: 30 * time.Second, DialTimeout: 30 * time.Second,
	}, nil)
	defer c.Close()
	c.SetPace(8)
	verify(t, c, 500)
	if n := opened.Load(); n > 50 {
		t.Errorf("%d connections for 500 requests, 8 at a time", n)
	}
}

// TestProposalSharesThePace: a registry that limits its clients does not get twice as
// many requests.
func TestProposalSharesThePace(t *testing.T) {
	c := registry.NewClient(wire.Options{}, nil)
	defer c.Close()
	if !c.Propose(nil).SharesPace(c.Client) {
		t.Error("the proposal has a pace of its own")
	}
}

// pipes is a network within the process, to whose only listener all connections lead.
type pipes chan net.Conn

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p pipes) Close() error {
	close(p)
	return nil
}

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }
