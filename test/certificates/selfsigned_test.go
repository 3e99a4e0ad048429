package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var hosts = []string{"mirrorset-guard.mirrorset-guard.svc", "127.0.0.1", "::1"}

func TestSelfSigned(t *testing.T) {
	dir := t.TempDir()
	ca, err := SelfSigned(dir, hosts, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	leaf, roots := pair.Leaf, x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, host := range append(hosts, "mirrorset-guard.mirrorset-guard.svc") {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: roots}); err == nil {
		t.Error("it is valid for another host")
	}
	if left := time.Until(leaf.NotAfter); left > time.Hour || left < 59*time.Minute {
		t.Errorf("it is valid for %s, want an hour", left)
	}
	for name, want := range map[string]os.FileMode{certFile: 0o644, keyFile: 0o600, CAFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %s, want %s", name, info.Mode(), want)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil || string(written) != string(ca) {
		t.Errorf("%s is not what was returned (%v)", CAFile, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("got %v, %v; want three files", entries, err)
	}
}

func TestSelfSignedRSA(t *testing.T) {
	dir := t.TempDir()
	if _, err := SelfSignedRSA(dir, hosts, time.Hour); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil || pair.Leaf.PublicKeyAlgorithm != x509.RSA || pair.Leaf.SignatureAlgorithm != x509.SHA256WithRSA {
		t.Errorf("got %v, %v", pair.Leaf, err)
	}
}

func TestSelfSignedErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hosts    []string
		validity time.Duration
		want     string
	}{
		{"nobody to speak for", nil, time.Hour, "self-signed certificate: no hosts"},
		{"expired at birth", hosts, 0, "self-signed certificate: validity 0s is not positive"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := SelfSigned(t.TempDir(), tc.hosts, tc.validity); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	if _, err := SelfSigned(filepath.Join(t.TempDir(), "missing"), hosts, time.Hour); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into a missing folder: got %v", err)
	}
}
