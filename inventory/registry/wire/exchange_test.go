package wire

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestBadAnswersToHead: nothing but GET says whether a registry is well. It is asked at full width all the same.
func TestBadAnswersToHead(t *testing.T) {
	for reason, head := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"503 that wants to be left alone": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"403": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"no answer but the end of the connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a redirect to where nothing is sent": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			c := newTestClient(t, newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					head(w, r)
				}
			}))
			var group errgroup.Group
			for range 200 {
				group.Go(func() error {
					_, err := c.Ask(t.Context(), web, func(ctx context.Context, x Exchange) error {
						r, err := x.Head(ctx, latest)
						if err == nil {
							_, err = x.Get(ctx, latest, r)
						}
						return err
					})
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			// Of 200 answers that counted as bad, little would be left; a busy machine may have one that is slow.
			if p := c.Endpoint(web).pace; p.limit < float64(p.max)/2 {
				t.Errorf("%.1f requests at a time, want about %d", p.limit, p.max)
			}
		})
	}
}

// TestEndpointsAreBounded: a mirror set can name any number of hosts.
func TestEndpointsAreBounded(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	for i := range maxEndpoints + 50 {
		c.Endpoint(Repository{Name: fmt.Sprintf("h%d.example.com/a", i)})
	}
	if n := len(c.current().endpoints); n > maxEndpoints {
		t.Errorf("%d endpoints are kept", n)
	}
}
