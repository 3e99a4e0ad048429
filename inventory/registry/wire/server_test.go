package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// Tests of what a node would meet, hostile registries among them, are those of package registry. These look inside.

// host is a name that the certificate of every test server is for.
const host = "mirror.example.com"

var web = Repository{Name: host + "/app/web"}

func newServer(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0) // handshakes are meant to fail
	certificates.StartTLS(s)
	t.Cleanup(s.Close)
	return s
}

// newTestClient returns a client that finds the host at s.
func newTestClient(t testing.TB, s *httptest.Server) *Client {
	t.Helper()
	c := NewClient(Options{
		RootCAs: certificates.OfHTTPTest(), Resolve: map[string]string{host: s.Listener.Addr().String()},
		Timeout: 30 * time.Second, DialTimeout: 30 * time.Second, // much longer than anything takes
	})
	t.Cleanup(c.Close)
	return c
}

// latest is a request for a manifest.
var latest = Request{Path: "manifests/latest", Limit: MaxManifest}

// ask gets latest from r, and returns why that failed.
func ask(t testing.TB, c *Client, r Repository) *Failure {
	t.Helper()
	_, err := c.Ask(t.Context(), r, func(ctx context.Context, x Exchange) error {
		answer, err := x.Get(ctx, latest, Response{})
		if refused := x.Refused(answer); err == nil && refused != nil {
			return refused
		}
		return err
	})
	var f *Failure
	if err != nil && !errors.As(err, &f) {
		t.Error(err)
	}
	return f
}

// healthy answers everything with 200.
func healthy(http.ResponseWriter, *http.Request) {}

// bearer gives a token to anybody, and a manifest to those who bring one for the repository.
func bearer(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	repository, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	switch {
	case r.URL.Path == "/token":
		json.NewEncoder(w).Encode(map[string]any{"token": strings.Join(r.URL.Query()["scope"], ","), "expires_in": 300}) //nolint:errcheck // the test would fail
	case !slices.Contains(strings.Split(token, ","), "repository:"+repository+":pull"):
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token"`, host))
		w.WriteHeader(http.StatusUnauthorized)
	default:
		fmt.Fprint(w, "{}")
	}
}
