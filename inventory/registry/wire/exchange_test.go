package wire

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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

// TestBrokenEntry takes no room from registries that can be asked.
func TestBrokenEntry(t *testing.T) {
	credentials, err := pullsecret.Parse([]byte(`{"auths":{"` + host + `":{"auth":"%"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(Options{Credentials: credentials})
	defer c.Close()
	f := ask(t, c, web)
	if f == nil || f.Presence != policy.Denied || !strings.Contains(f.Detail, host) {
		t.Errorf("%v", f)
	}
	if len(c.current().endpoints) > 0 || len(c.paces.byHost) > 0 {
		t.Errorf("%d endpoints, %d paces", len(c.current().endpoints), len(c.paces.byHost))
	}
}

// TestEndpointsAreBounded: a mirror set can name any number of hosts, and a tenant any number of repositories.
func TestEndpointsAreBounded(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	for i := range maxPaces + 50 {
		c.Endpoint(Repository{Name: fmt.Sprintf("h%d.example.com/a", i)})
	}
	if n, paces := len(c.current().endpoints), len(c.paces.byHost); n > maxEndpoints || paces > maxPaces {
		t.Errorf("%d endpoints and %d paces are kept", n, paces)
	}
	k := newKeychain(nil, pullsecret.Entry{})
	for i := range 3 * maxGrants {
		scope := fmt.Sprint("repository:", i, ":pull")
		k.keep(scope, &grant{[]string{scope}, Answered(token{until: time.Now().Add(time.Hour)})})
		k.keep("both", &grant{[]string{scope, "b"}, Answered(token{until: time.Now().Add(time.Hour)})})
	}
	if n := len(k.grants); n > maxGrants+1 || k.grants["both"] == nil {
		t.Errorf("%d tokens are kept", n)
	}
}
