package main

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// A front stands before a registry. Its settings change only between measurements.
type front struct {
	server *httptest.Server
	old    *httptest.Server // the same without HTTP/2
	delay  time.Duration    // before each answer
	limits *limits          // nil: none

	registry    http.Handler
	requests    atomic.Int64
	connections atomic.Int64
	throttled   atomic.Int64

	mu     sync.Mutex
	grants map[string][]string // scopes, by token
}

// limits are request limits, beyond which the front answers 429.
type limits struct{ manifests, manifestsHTTP1, tokens *rate.Limiter }

// likeQuay returns what Quay publishes in its nginx configuration (conf/nginx of
// github.com/quay/quay, rate-limiting): manifests for each connection of HTTP/2, or for
// each address, and tokens for each credential.
func likeQuay() *limits {
	return &limits{
		manifests:      rate.NewLimiter(500, 50),
		manifestsHTTP1: rate.NewLimiter(50, 10),
		tokens:         rate.NewLimiter(120, 2),
	}
}

func newFront(registry string) *front {
	f := &front{grants: map[string][]string{}}
	f.registry = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: registry}) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 256},
		ErrorLog:  log.New(io.Discard, "", 0), // clients that leave
	}
	f.server, f.old = f.start(true), f.start(false)
	return f
}

func (f *front) start(http2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(f)
	server.EnableHTTP2 = http2
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.connections.Add(1)
		}
	}
	server.StartTLS()
	return server
}

func (f *front) close() {
	f.server.Close()
	f.old.Close()
}

func (f *front) address() string { return f.server.Listener.Addr().String() }

// roots returns a pool that trusts the front's certificate.
func (f *front) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(f.server.Certificate())
	return pool
}

// reset sets all counts to zero and forgets all tokens.
func (f *front) reset() {
	f.requests.Store(0)
	f.connections.Store(0)
	f.throttled.Store(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.grants)
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	time.Sleep(f.delay) // the thing to measure: the round trip to the registry
	repository, kind := about(r.URL.Path)
	switch {
	case f.limits.refuse(r, kind):
		f.throttled.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	case r.URL.Path == "/token":
		f.grant(w, r)
	case !f.granted(r, repository):
		f.challenge(w, r, repository)
	default:
		f.registry.ServeHTTP(w, r)
	}
}

// about returns the repository that a path names, and what part of it: "manifests",
// "blobs", "tags".
func about(path string) (repository, kind string) {
	rest := strings.TrimPrefix(path, "/v2/")
	for _, kind := range []string{"manifests", "blobs", "tags"} {
		if repository, _, ok := strings.Cut(rest, "/"+kind+"/"); ok {
			return repository, kind
		}
	}
	return "", ""
}

func (l *limits) refuse(r *http.Request, kind string) bool {
	switch {
	case l == nil:
		return false
	case r.URL.Path == "/token":
		return !l.tokens.Allow()
	case kind == "manifests" && r.ProtoMajor < 2:
		return !l.manifestsHTTP1.Allow()
	case kind == "manifests":
		return !l.manifests.Allow()
	}
	return false
}

// grant answers with a token for all requested scopes.
func (f *front) grant(w http.ResponseWriter, r *http.Request) {
	token := rand.Text()
	f.mu.Lock()
	f.grants[token] = r.URL.Query()["scope"]
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": 300}) //nolint:errcheck // the client may have left
}

func (f *front) granted(r *http.Request, repository string) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	f.mu.Lock()
	defer f.mu.Unlock()
	scopes, ok := f.grants[token]
	return ok && (repository == "" || slices.Contains(scopes, scopeOf(repository)))
}

func scopeOf(repository string) string { return "repository:" + repository + ":pull" }

func (f *front) challenge(w http.ResponseWriter, r *http.Request, repository string) {
	challenge := fmt.Sprintf(`Bearer realm="https://%s/token",service="registry"`, r.Host)
	if repository != "" {
		challenge += fmt.Sprintf(`,scope=%q`, scopeOf(repository))
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(http.StatusUnauthorized)
}
