package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// Suites, by kinds, as the documentation of the API's profiles lists them.
var (
	aead = []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
	cbc = []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	}
	rsaKeyExchange = []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}
	oldOfTLS12     = []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_CBC_SHA256,
	}
	goSecure = slices.Concat(aead, cbc)

	allGroups = []tls.CurveID{
		tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
	}
	profileGroups = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.X25519MLKEM768}
)

// A profileCase is the spec of an APIServer, and what clients get: the suites of each version
// before TLS 1.3, nil where it is refused, and the groups of TLS 1.3.
type profileCase struct {
	reason, spec   string
	profile        string // its name
	problem        string
	tls10, tls11   []uint16
	tls12          []uint16
	groups         []tls.CurveID
	readsTheObject bool // false: nothing shows that the object has been read
}

var profileCases = []profileCase{
	{
		reason: "no opinion: what Go considers secure", spec: `{tlsSecurityProfile: {type: Old, old: {}}}`,
		profile: "Default", tls12: goSecure, groups: allGroups,
	},
	{
		reason: "Old", spec: `{tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Old, old: {}}}`, readsTheObject: true,
		profile: "Old", tls10: slices.Concat(cbc, rsaKeyExchange), tls11: slices.Concat(cbc, rsaKeyExchange),
		tls12: slices.Concat(aead, cbc, rsaKeyExchange, oldOfTLS12), groups: profileGroups,
	},
	{
		reason: "Intermediate", spec: `{tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Intermediate, intermediate: {}}}`, readsTheObject: true,
		profile: "Intermediate", tls12: aead, groups: profileGroups,
	},
	{
		reason: "Custom, with a name that Go does not have", readsTheObject: true,
		spec: `{tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Custom, custom: {minTLSVersion: VersionTLS11, groups: [secp256r1],
			ciphers: [ROT13, ECDHE-ECDSA-AES128-SHA, ECDHE-RSA-AES128-GCM-SHA256, TLS_AES_128_GCM_SHA256]}}}`,
		profile: "Custom", problem: `spec.tlsSecurityProfile.custom.ciphers: left out, as Go does not support them: "ROT13"`,
		tls11: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}, groups: []tls.CurveID{tls.CurveP256},
		tls12: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
	},
	{
		reason: "Modern", spec: `{tlsAdherence: StrictAllComponents, tlsSecurityProfile: {type: Modern, modern: {}}}`, readsTheObject: true,
		profile: "Modern", groups: profileGroups,
	},
}

// TestTLSProfiles: a running server offers what the cluster's profile says, on both of its
// ports, with either kind of key, to a client of each version, suite and group; and goes over
// from one profile to the next, also for a client that has a session.
func TestTLSProfiles(t *testing.T) {
	c := cluster.New(t)
	// The kind with the fields that only a preview has.
	c.InstallCRD(t, "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_apiservers-CustomNoUpgrade.crd.yaml")
	g := startTLSGuard(t, c.Config)
	g.awaitProfile(t, profileCase{profile: "Default"})
	g.awaitListening(t)
	old, current := g.client(t, tls.VersionTLS12), g.client(t, tls.VersionTLS13)
	g.get(t, old)
	g.get(t, current)
	for _, tt := range profileCases {
		g.testProfile(t, c, tt)
	}
	if answer, err := old.Get(g.metricsURL()); err == nil {
		answer.Body.Close()
		t.Error("a session that was made under another profile could be used, or resumed, with TLS 1.2")
	}
	g.get(t, current)
}

// A tlsGuard is a guard that serves, with keys that it can be given.
type tlsGuard struct {
	*guard
	dir      string
	keys     []tlsKey
	cas      *x509.CertPool
	profiles chan []any // what is logged of each
}

type tlsKey struct{ name, dir string }

// isFor reports whether a suite of TLS 1.2 or before takes such a key.
func (k tlsKey) isFor(suite uint16) bool {
	return strings.Contains(tls.CipherSuiteName(suite), "_ECDSA_") == (k.name == "ECDSA")
}

func startTLSGuard(t *testing.T, api *rest.Config) *tlsGuard {
	t.Helper()
	g := &tlsGuard{dir: t.TempDir(), cas: x509.NewCertPool(), profiles: make(chan []any, 100)}
	for name, issue := range map[string]func(string, []string, time.Duration) ([]byte, error){"ECDSA": certificates.SelfSigned, "RSA": certificates.SelfSignedRSA} {
		key := tlsKey{name, t.TempDir()}
		ca, err := issue(key.dir, []string{"127.0.0.1"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		g.cas.AppendCertsFromPEM(ca)
		g.keys = append(g.keys, key)
	}
	g.copyKey(t, g.keys[0])
	g.guard = runGuard(t, api, logr.New(profileSink{profiles: g.profiles}), "--tls-dir", g.dir)
	return g
}

// A profileSink passes on what is logged of profiles.
type profileSink struct {
	logr.LogSink
	profiles chan []any
}

func (profileSink) Init(logr.RuntimeInfo)            {}
func (profileSink) Enabled(int) bool                 { return true }
func (profileSink) Error(error, string, ...any)      {}
func (s profileSink) WithName(string) logr.LogSink   { return s }
func (s profileSink) WithValues(...any) logr.LogSink { return s }
func (s profileSink) Info(_ int, msg string, values ...any) {
	if msg == "TLS profile in force" {
		s.profiles <- values
	}
}

// awaitProfile waits until the profile of a case is logged.
func (g *tlsGuard) awaitProfile(t *testing.T, want profileCase) {
	t.Helper()
	for timeout := time.After(time.Minute); ; {
		select {
		case values := <-g.profiles: // "profile", name, "minVersion", version, "problems", texts
			if values[1] == want.profile && strings.Contains(fmt.Sprint(values[5]), want.problem) {
				return
			}
		case <-timeout:
			t.Fatalf("%s: %+v is in force", want.reason, g.tls.cluster.Profile())
		}
	}
}

// awaitListening waits until the guard listens, which it begins to do while it reads the profile.
func (g *tlsGuard) awaitListening(t *testing.T) {
	t.Helper()
	for _, address := range []string{g.options.listen, g.options.observe.address} {
		eventually(t, address+" is listened on", func() bool {
			conn, err := net.Dial("tcp", address)
			return err == nil && conn.Close() == nil
		})
	}
}

func (g *tlsGuard) copyKey(t *testing.T, key tlsKey) {
	t.Helper()
	for _, name := range []string{certs.CertFile, certs.KeyFile} {
		data, err := os.ReadFile(filepath.Join(key.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(g.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// testProfile puts the spec of a case in force, and tries what clients get.
func (g *tlsGuard) testProfile(t *testing.T, c *cluster.Cluster, tt profileCase) {
	t.Helper()
	c.Apply(t, "{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: {name: cluster}, spec: "+tt.spec+"}")
	if tt.readsTheObject {
		g.awaitProfile(t, tt)
	}
	if notes := strings.Join(g.tls.notes(), "\n"); !strings.Contains(notes, tt.problem) || tt.problem == "" && strings.Contains(notes, "apiserver.config") {
		t.Errorf("%s: notes %q, want %q", tt.reason, notes, tt.problem)
	}
	for _, key := range g.keys {
		g.copyKey(t, key)
		if _, err := g.tls.certs.Reload(); err != nil {
			t.Fatal(err)
		}
		for version, suites := range map[uint16][]uint16{tls.VersionTLS10: tt.tls10, tls.VersionTLS11: tt.tls11, tls.VersionTLS12: tt.tls12} {
			g.testSuites(t, fmt.Sprintf("%s, %s key, %s", tt.reason, key.name, tls.VersionName(version)), version, suites, key)
		}
	}
	g.testGroups(t, tt)
}

// testSuites tries each suite that Go has in one version, at the port for reviews, and all
// together at the port for metrics.
func (g *tlsGuard) testSuites(t *testing.T, what string, version uint16, want []uint16, key tlsKey) {
	t.Helper()
	var got, all, wanted []string
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
			continue // Go chooses among these by itself
		}
		if slices.Contains(want, s.ID) && key.isFor(s.ID) {
			wanted = append(wanted, s.Name)
		}
		if g.shake(g.options.listen, version, []uint16{s.ID}, nil) == nil {
			got = append(got, s.Name)
		}
		all = append(all, s.Name)
	}
	if diff := cmp.Diff(wanted, got); diff != "" || len(all) < 20 {
		t.Errorf("%s: of %d suites (-want +got):\n%s", what, len(all), diff)
	}
	var suites []uint16
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		suites = append(suites, s.ID)
	}
	if err := g.shake(g.options.observe.address, version, suites, nil); (err == nil) != (len(wanted) > 0) {
		t.Errorf("%s: port for metrics: %v", what, err)
	}
}

func (g *tlsGuard) testGroups(t *testing.T, tt profileCase) {
	t.Helper()
	for _, address := range []string{g.options.listen, g.options.observe.address} {
		var got []tls.CurveID
		for _, group := range allGroups {
			if g.shake(address, tls.VersionTLS13, nil, []tls.CurveID{group}) == nil {
				got = append(got, group)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(tt.groups)); !slices.Equal(want, got) {
			t.Errorf("%s: %s: groups %v, want %v", tt.reason, address, got, want)
		}
	}
}

// shake connects as a client that speaks one version and offers no more than these.
func (g *tlsGuard) shake(address string, version uint16, suites []uint16, groups []tls.CurveID) error {
	config := &tls.Config{RootCAs: g.cas, MinVersion: version, MaxVersion: version, CipherSuites: suites, CurvePreferences: groups}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", address, config)
	if err != nil {
		return err
	}
	return conn.Close()
}

// client returns a client that resumes its session. It would use a connection again if it could.
func (g *tlsGuard) client(t *testing.T, version uint16) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1, TLSClientConfig: &tls.Config{
		RootCAs: g.cas, MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (g *tlsGuard) metricsURL() string { return "https://" + g.options.observe.address + "/metrics" }

// get sends a request without credentials, and wants to be told so, on a connection that ends.
func (g *tlsGuard) get(t *testing.T, client *http.Client) {
	t.Helper()
	answer, err := client.Get(g.metricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusUnauthorized || !answer.Close {
		t.Errorf("got %s (%v), the last of the connection: %t", answer.Status, err, answer.Close)
	}
}
