package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// status answers every manifest request with a status and a body.
func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if ping(w, r) {
			return
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// byMethod answers HEAD and GET of manifests differently.
func byMethod(head, get http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case ping(w, r):
		case r.Method == http.MethodHead:
			head(w, r)
		default:
			get(w, r)
		}
	}
}

func serve(contentType, digest, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if ping(w, r) {
			return
		}
		w.Header().Set("Content-Type", contentType)
		if digest != "" {
			w.Header().Set("Docker-Content-Digest", digest)
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, body)
		}
	}
}

// hub is an image at the Docker Hub, and hubAt has it found at a server.
var hub = mirrors.Location{Ref: "docker.io/app/web@" + manifestSum.String(), Insecure: true}

func hubAt(s *server) func(*clientOptions) {
	return func(o *clientOptions) { o.Resolve["registry-1.docker.io"] = s.address() }
}

// TestManifestAnswers has a row for each kind of answer to a manifest request: what
// it means for a node and in which words it is told.
func TestManifestAnswers(t *testing.T) {
	other := digest.FromString("other").String()
	html := "<html>log in</html>"
	for _, tc := range []struct {
		reason  string
		handler http.HandlerFunc
		want    policy.Presence
		detail  string
	}{
		{"the usual case", healthy, policy.Present, ""},
		{"a miss", status(404, ``), policy.Absent, "mirror.example.com answers 404: it does not hold this image"},
		{
			"the registry's words are quoted",
			status(404, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`),
			policy.Absent, `mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"`,
		},
		{"deleted for good", status(410, ``), policy.Absent, "mirror.example.com answers 410: it does not hold this image"},
		{"Nexus answers 404 to HEAD", byMethod(status(404, ""), serveManifest), policy.Present, ""},
		{"some answer 405 to HEAD", byMethod(status(405, ""), serveManifest), policy.Present, ""},
		{"some answer 501 to HEAD", byMethod(status(501, ""), serveManifest), policy.Present, ""},
		{"some answer 403 to HEAD", byMethod(status(403, ""), serveManifest), policy.Present, ""},
		{"HEAD without a digest", byMethod(serve(ociManifest, "", ""), serveManifest), policy.Present, ""},
		{"HEAD with another digest, GET is right", byMethod(serve(ociManifest, other, ""), serveManifest), policy.Present, ""},
		{"HEAD without a type, GET is right", byMethod(serve("", manifestSum.String(), ""), serveManifest), policy.Present, ""},
		{"HEAD 200 and GET 404: the proxy has lost it", byMethod(serve(ociManifest, other, ""), status(404, "")), policy.Absent, "404"},
		{
			"401 without a challenge", status(401, ""), policy.Denied,
			"mirror.example.com answers 401 and the global pull secret has no entry for it; add one",
		},
		{"403", status(403, ""), policy.Denied, "mirror.example.com answers 403 and the global pull secret has no entry for it; add one; or it does not exist: some registries answer 403 for images that they do not have"},
		{"a client error that says nothing about the image", status(400, ""), policy.Unreachable, "mirror.example.com answers 400 Bad Request"},
		{"not what a registry says", status(204, ""), policy.Unreachable, "mirror.example.com answers 204 No Content"},
		{"not implemented", status(501, ""), policy.Unreachable, "mirror.example.com answers 501 Not Implemented"},
		{
			"a login page", serve("text/html", "", html), policy.Mismatch,
			`mirror.example.com answers 200 with "text/html", which is not an image manifest; check what serves this path`,
		},
		{"a login page that calls itself a manifest", serve(ociManifest, "", html), policy.Mismatch, "which is not an image manifest"},
		{
			"nodes read an unknown type as schema 1, which this is not",
			serve("application/json", "", string(manifestBody)), policy.Mismatch, `answers 200 with "application/json"`,
		},
		{
			"other content", serve(ociManifest, "", `{"schemaVersion":2}`), policy.Mismatch,
			"mirror.example.com serves other content under this digest (sha256:",
		},
		{"a cache whose HEAD is right", byMethod(serveManifest, serve(ociManifest, manifestSum.String(), `{}`)), policy.Mismatch, "serves other content under this digest"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for _, at := range []mirrors.Location{digested(), hub} {
				s := newTLSServer(t, tc.handler)
				got := probe(t, newTestClient(t, s, hubAt(s)), at)
				if at == hub && tc.reason == "a cache whose HEAD is right" { // which the Hub is not
					tc.want, tc.detail = policy.Present, ""
				}
				wantFact(t, got, tc.want)
				detail := tc.detail
				if at == hub {
					detail = strings.ReplaceAll(detail, host, "registry-1.docker.io")
				}
				if !strings.Contains(got.Detail, detail) || detail == "" && got.Detail != "" {
					t.Errorf("%s: detail = %q, want %q", at.Ref, got.Detail, detail)
				}
				if got.Time.IsZero() {
					t.Error("the fact has no time")
				}
				if asked := s.count(http.MethodHead, "manifests"); asked > 0 != (at == hub) {
					t.Errorf("%s: %d requests by HEAD: the Hub alone is asked so, as it counts GETs", at.Ref, asked)
				}
			}
		})
	}
}

// TestTroubledAnswers are those that are asked for again before they count.
func TestTroubledAnswers(t *testing.T) {
	for _, tc := range []struct {
		status int
		header string
		detail string
	}{
		{429, "", "mirror.example.com limits the rate of requests (429); try again later"},
		{429, "30", "mirror.example.com limits the rate of requests (429); try again in 30s"},
		{500, "", "mirror.example.com is failing: it answers 500 Internal Server Error; try again when it has recovered"},
		{507, "", "mirror.example.com answers 507 Insufficient Storage"},
		{503, "", "mirror.example.com is failing: it answers 503 Service Unavailable; try again when it has recovered"},
	} {
		t.Run(fmt.Sprint(tc.status, " ", tc.header), func(t *testing.T) {
			c := newTestClient(t, newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if !ping(w, r) {
					w.Header().Set("Retry-After", tc.header)
					w.WriteHeader(tc.status)
				}
			}))
			got := probe(t, c, tagged())
			wantFact(t, got, policy.Unreachable, tc.detail)
		})
	}
}

func TestTroubleThatPasses(t *testing.T) {
	for _, code := range []int{429, 500, 502, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := newTLSServer(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				first := r.URL.Path != "/v2/" && len(s.seen) == 0
				if first {
					s.seen = append(s.seen, seen{})
				}
				s.mu.Unlock()
				if first {
					w.WriteHeader(code)
					return
				}
				healthy(w, r)
			})
			wantFact(t, probe(t, newTestClient(t, s), tagged()), policy.Present)
		})
	}
}

func TestTagTellsItsDigest(t *testing.T) {
	c := newTestClient(t, newTLSServer(t, healthy))
	got := probe(t, c, tagged())
	wantFact(t, got, policy.Present)
	if got.Digest != manifestSum.String() || got.MediaType != ociManifest {
		t.Errorf("got digest %q and type %q", got.Digest, got.MediaType)
	}
	c = newTestClient(t, newTLSServer(t, byMethod(status(405, ""), serveManifest)))
	if got := probe(t, c, tagged()); got.Digest != manifestSum.String() {
		t.Errorf("by GET: got digest %q", got.Digest)
	}
}

// TestPing: nodes want 200 or 401 from GET /v2/ before they ask for anything else.
func TestPing(t *testing.T) {
	for _, tc := range []struct {
		status int
		want   policy.Presence
		detail string
	}{
		{200, policy.Present, ""},
		{401, policy.Present, ""},
		{403, policy.Unreachable, "mirror.example.com answers 403 Forbidden to GET /v2/, where nodes expect 200 or 401; is it a registry?"},
		{404, policy.Unreachable, "mirror.example.com answers 404 Not Found to GET /v2/, where nodes expect 200 or 401"},
		{204, policy.Unreachable, "answers 204 No Content to GET /v2/"},
		{503, policy.Unreachable, "mirror.example.com is failing: it answers 503 Service Unavailable"},
		{429, policy.Unreachable, "mirror.example.com limits the rate of requests (429)"},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					w.WriteHeader(tc.status)
					return
				}
				serveManifest(w, r)
			})
			wantFact(t, probe(t, newTestClient(t, s), tagged()), tc.want, tc.detail)
			if tc.want != policy.Present && s.count("", "manifests") > 0 {
				t.Error("the manifest was asked for all the same")
			}
		})
	}
}

func TestPingOnce(t *testing.T) {
	s := newTLSServer(t, healthy)
	c := newTestClient(t, s)
	for range 5 {
		wantFact(t, probe(t, c, tagged()), policy.Present)
	}
	if n := s.count(http.MethodGet, "/v2/"); n != 1+5 { // those of the manifest
		t.Errorf("%d requests, want 6", n)
	}
}

// expiredCertificate is for host, and was good for an hour.
func expiredCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestConnections(t *testing.T) {
	tls11 := startServer(t, healthy, func(s *httptest.Server) {
		s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10} // what must be refused
		s.StartTLS()
	})
	expired := startServer(t, healthy, func(s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{expiredCertificate(t)}}
		s.StartTLS()
	})
	good := newTLSServer(t, healthy)
	gone := newTLSServer(t, healthy)
	gone.Close()
	for _, tc := range []struct {
		reason string
		server *server
		adjust func(*clientOptions)
		host   string
		detail string
	}{
		{"refused", gone, nil, host, "mirror.example.com refuses connections; check that the registry runs and listens there"},
		{
			"unknown authority", good, func(o *clientOptions) { o.RootCAs = nil }, host,
			"mirror.example.com has a certificate of an unknown authority; add its CA to additionalTrustedCA of image.config",
		},
		{"another name", good, nil, "mirror.test", "mirror.test has a certificate for another name; give it one that names the host"},
		{
			"expired", expired, func(o *clientOptions) { o.RootCAs.AddCert(expired.Certificate()) }, host,
			"mirror.example.com has a certificate that is expired or not yet valid; renew it",
		},
		{"old TLS", tls11, nil, host, "mirror.example.com does not negotiate TLS 1.2 or later"},
		{
			"no TLS", newPlainServer(t, healthy), nil, host,
			"mirror.example.com does not speak TLS there; if that is meant, list it in insecureRegistries of image.config",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := newTestClient(t, tc.server, func(o *clientOptions) {
				o.Resolve = map[string]string{tc.host: tc.server.address()}
				if tc.adjust != nil {
					tc.adjust(o)
				}
			})
			wantFact(t, probe(t, c, mirrors.Location{Ref: tc.host + "/app/web:1"}), policy.Unreachable, tc.detail)
		})
	}
}

func TestHostRootCAs(t *testing.T) {
	s := newTLSServer(t, healthy)
	c := newTestClient(t, s, func(o *clientOptions) { o.RootCAs = nil })
	wantFact(t, probe(t, c, tagged()), policy.Unreachable, "unknown authority")
	pool := certificates.OfHTTPTest()
	c.SetTrust(nil, map[string]*x509.CertPool{"elsewhere.example.com": pool}, nil)
	wantFact(t, probe(t, c, tagged()), policy.Unreachable, "unknown authority")
	c.SetTrust(nil, map[string]*x509.CertPool{host: pool}, nil)
	wantFact(t, probe(t, c, tagged()), policy.Present)
}

// TestBlackHole: a registry that swallows packets costs the time for one
// connection, however many ask, and nobody else's.
func TestBlackHole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := newTestClient(t, newTLSServer(t, healthy), func(o *clientOptions) {
		o.Resolve["hole.example.com"] = listener.Addr().String() // accepts and stays silent
		o.DialTimeout = 3 * time.Second
	})
	start := time.Now()
	got := probe(t, c, mirrors.Location{Ref: "hole.example.com/app:1"})
	wantFact(t, got, policy.Unreachable, "hole.example.com did not answer within 3s; check the registry, the network and its firewalls")
	for range 100 {
		wantFact(t, probe(t, c, mirrors.Location{Ref: "hole.example.com/app:1"}), policy.Unreachable)
	}
	if took := time.Since(start); took > 60*time.Second { // one after the other they would take five minutes
		t.Errorf("101 probes took %v", took)
	}
	wantFact(t, probe(t, c, tagged()), policy.Present)
}

func TestUnknownHost(t *testing.T) {
	c := NewClient(wire.Options{}, nil)
	defer c.Close()
	got := probe(t, c, mirrors.Location{Ref: "no-such-host.invalid/app:1"})
	wantFact(t, got, policy.Unreachable, "no-such-host.invalid: ", "DNS")
}

func TestMalformedReference(t *testing.T) {
	c := NewClient(wire.Options{}, nil)
	defer c.Close()
	wantFact(t, probe(t, c, mirrors.Location{Ref: "Not A Reference\x1b[31m"}), policy.Unreachable,
		`no node can read the reference "Not A Reference"`)
}

// TestInsecure: TLS without verification first, then clear text, as nodes do; and
// never clear text where the location is not insecure.
func TestInsecure(t *testing.T) {
	insecure := tagged()
	insecure.Insecure = true
	for _, tc := range []struct {
		reason string
		server *server
		want   policy.Presence
	}{
		{"TLS by anybody", newTLSServer(t, healthy), policy.Present},
		{"clear text", newPlainServer(t, healthy), policy.Present},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := newTestClient(t, tc.server, func(o *clientOptions) { o.RootCAs = nil })
			wantFact(t, probe(t, c, insecure), tc.want)
			wantFact(t, probe(t, c, tagged()), policy.Unreachable)
		})
	}
}

func TestInsecureFallsBackOnStatus(t *testing.T) {
	plain := newPlainServer(t, healthy)
	secure := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	c := newTestClient(t, plain, func(o *clientOptions) {
		o.Resolve = map[string]string{host + ":443": secure.address(), host + ":80": plain.address()}
	})
	insecure := tagged()
	insecure.Insecure = true
	wantFact(t, probe(t, c, insecure), policy.Present)
}
