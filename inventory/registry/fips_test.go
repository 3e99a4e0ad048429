package registry

import (
	"crypto/fips140"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// smallKey is a certificate for host with an RSA key of 1024 bits.
func smallKey(t *testing.T) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, parsed
}

// A fipsWorld is what a process in FIPS 140-3 mode is told: addresses of registries, and their CAs.
type fipsWorld struct {
	Addresses map[string]string
	CAs       []byte
}

// TestFIPS: in FIPS 140-3 mode, a registry that offers nothing approved is not asked, and the reason says so;
// one that does is asked. The mode is that of a process, so the test starts itself again.
func TestFIPS(t *testing.T) {
	const variable = "REGISTRIES_FOR_FIPS"
	if file := os.Getenv(variable); file != "" {
		askInFIPSMode(t, file)
		return
	}
	start := func(c *tls.Config) *server {
		return startServer(t, healthy, func(s *httptest.Server) {
			s.TLS = c
			s.StartTLS()
		})
	}
	small, ca := smallKey(t)
	approved := start(nil)
	world := fipsWorld{Addresses: map[string]string{
		"approved": approved.address(),
		"ciphers":  start(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}}).address(),
		"groups":   start(&tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}).address(),
		"key":      start(&tls.Config{Certificates: []tls.Certificate{small}}).address(),
	}}
	for _, c := range []*x509.Certificate{approved.Certificate(), ca} {
		world.CAs = append(world.CAs, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	text, err := json.Marshal(world)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/world"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"on", "only"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFIPS$", "-test.v")
		child.Env = append(os.Environ(), variable+"="+file, "GODEBUG=fips140="+mode)
		if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFIPS") {
			t.Errorf("fips140=%s: %v\n%s", mode, err, out)
		}
	}
}

func askInFIPSMode(t *testing.T, file string) {
	t.Helper()
	if !fips140.Enabled() {
		t.Fatal("this is not FIPS 140-3 mode")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var world fipsWorld
	if err := json.Unmarshal(text, &world); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(world.CAs)
	for name, want := range map[string]string{
		"approved": "",
		"ciphers":  "mirror.example.com does not negotiate TLS 1.2 or later with what FIPS 140-3 approves (\"tls: handshake failure\"); check its ciphers, groups and key",
		"groups":   "mirror.example.com does not negotiate TLS 1.2 or later with what FIPS 140-3 approves (\"tls: handshake failure\"); check its ciphers, groups and key",
		"key":      "mirror.example.com has a certificate that FIPS 140-3 does not approve, for its key or one above it; give it RSA of 2048 bits, ECDSA or Ed25519",
	} {
		c := NewClient(wire.Options{RootCAs: roots, Resolve: map[string]string{host: world.Addresses[name]}, Timeout: 30 * time.Second, DialTimeout: 30 * time.Second}, nil)
		presence := policy.Unreachable
		if want == "" {
			presence = policy.Present
		}
		wantFact(t, probe(t, c, mirrors.Location{Ref: host + "/app/web:1"}), presence, want)
		c.Close()
	}
}
