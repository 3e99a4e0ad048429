package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// host is a name that the certificate of every test server is for.
const host = "mirror.example.com"

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
)

var (
	manifestBody = []byte(`{"schemaVersion":2,"mediaType":"` + ociManifest + `"}`)
	manifestSum  = digest.FromBytes(manifestBody)
)

// A server is a registry that answers as a test wants it to.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seen
}

// seen is a request as it came.
type seen struct {
	method, host, path, query, authorization string
}

func newTLSServer(t testing.TB, handler http.HandlerFunc) *server {
	return startServer(t, handler, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		certificates.StartTLS(s)
	})
}

func newPlainServer(t testing.TB, handler http.HandlerFunc) *server {
	return startServer(t, handler, (*httptest.Server).Start)
}

func startServer(t testing.TB, handler http.HandlerFunc, start func(*httptest.Server)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, seen{r.Method, r.Host, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization")})
		s.mu.Unlock()
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are meant to fail
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func (s *server) address() string { return s.Listener.Addr().String() }

func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

// count returns the number of requests by method, or by any if it is "", to a path
// that contains part.
func (s *server) count(method, part string) int {
	n := 0
	for _, r := range s.requests() {
		if (method == "" || r.method == method) && strings.Contains(r.path, part) {
			n++
		}
	}
	return n
}

// clientOptions are what a client is made with.
type clientOptions struct {
	wire.Options
	platforms func() []string
}

// newTestClient returns a client that finds the host at s and trusts its
// certificate.
func newTestClient(t testing.TB, s *server, adjust ...func(*clientOptions)) *Client {
	t.Helper()
	o := clientOptions{Options: wire.Options{
		RootCAs: certificates.OfHTTPTest(),
		Resolve: map[string]string{host: s.address()},
		// Much longer than anything takes, so that a busy machine changes no outcome.
		// Tests of timeouts set their own.
		Timeout:     30 * time.Second,
		DialTimeout: 30 * time.Second,
	}}
	for _, f := range adjust {
		f(&o)
	}
	c := NewClient(o.Options, o.platforms)
	t.Cleanup(c.Close)
	return c
}

func tagged() mirrors.Location { return mirrors.Location{Ref: host + "/app/web:1"} }

func digested() mirrors.Location {
	return mirrors.Location{Ref: host + "/app/web@" + manifestSum.String()}
}

func probe(t testing.TB, c *Client, l mirrors.Location) policy.Fact {
	t.Helper()
	return c.Probe(t.Context(), l)
}

// ping answers GET /v2/ and returns true, or returns false.
func ping(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/v2/" {
		return false
	}
	w.WriteHeader(http.StatusOK)
	return true
}

// serveManifest answers with the one manifest that tests know.
func serveManifest(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", ociManifest)
	w.Header().Set("Docker-Content-Digest", manifestSum.String())
	w.Header().Set("Content-Length", fmt.Sprint(len(manifestBody)))
	if r.Method == http.MethodGet {
		w.Write(manifestBody) //nolint:errcheck // the client may have left
	}
}

// healthy is a registry that holds every image.
func healthy(w http.ResponseWriter, r *http.Request) {
	if !ping(w, r) {
		serveManifest(w, r)
	}
}

// dockerConfig returns a pull secret with entries, "user:password" each.
func dockerConfig(t testing.TB, entries map[string]string) []byte {
	t.Helper()
	auths := map[string]any{}
	for key, auth := range entries {
		auths[key] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(auth))}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func credentials(t testing.TB, entries map[string]string) pullsecret.Credentials {
	t.Helper()
	c, err := pullsecret.Parse(dockerConfig(t, entries))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func withCredentials(c pullsecret.Credentials) func(*clientOptions) {
	return func(o *clientOptions) { o.Credentials = c }
}

func basic(auth string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(auth)) }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// silence are the words for no answer at all.
var silence = regexp.MustCompile("refuses connections|no route to|did not answer within|closed the connection|was not asked|gives no usable answer")

func wantFact(t testing.TB, got policy.Fact, want policy.Presence, words ...string) {
	t.Helper()
	if got.Presence != want {
		t.Fatalf("presence = %v (%s), want %v", got.Presence, got.Detail, want)
	}
	if strings.Contains(got.Detail, "canary") {
		t.Errorf("detail = %q gives a secret away", got.Detail)
	}
	if isSilent := got.Trouble == nil || got.Trouble.Cause == policy.Silent; got.Presence == policy.Unreachable && isSilent != silence.MatchString(got.Detail) {
		t.Errorf("%q has the cause %+v: what does not answer is told from what does", got.Detail, got.Trouble)
	}
	for _, word := range words {
		if !strings.Contains(got.Detail, word) {
			t.Errorf("detail = %q, want it to have %q", got.Detail, word)
		}
	}
}

func base64URL(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
