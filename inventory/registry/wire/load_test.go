package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

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
		{"the limit is known", map[string]float64{host: 450}, 0},
		{"the limit is not known", map[string]float64{}, 200},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			certificate, now := newServer(t, nil).TLS.Certificates[0], time.Now()
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
// images are asked for.
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
		bearer(w, r)
	}
	pipes := make(pipes)
	s := http.Server{Handler: http.HandlerFunc(handler), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ErrorLog: log.New(io.Discard, "", 0)}
	go s.ServeTLS(pipes, "", "") //nolint:errcheck // it ends with s
	defer s.Close()              //nolint:errcheck // nobody listens any more
	c := NewClient(Options{RootCAs: trust(t), Resolve: map[string]string{host: "127.0.0.1:1"}, Rates: rates})
	defer c.Close()
	c.Endpoint(web).transport.base.DialContext = pipes.dial
	locs := make([]mirrors.Location, 2000)
	for i := range locs {
		locs[i].Ref = fmt.Sprintf("%s/team/app%d:%d", host, i/10, i%10)
	}
	c.Prepare(t.Context(), locs)
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(2 * limits.RequestsPerRegistry)
	for _, l := range locs {
		group.Go(func() error {
			r, _, _ := Locate(l)
			if f := ask(t, c, r); f != nil {
				return fmt.Errorf("%s: %w", l.Ref, f)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	t.Logf("%v, %d answers 429", took.Round(time.Millisecond), refused.Load())
	return refused.Load()
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
