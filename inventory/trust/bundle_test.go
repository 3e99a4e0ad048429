package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An authority is a CA that was made for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// serving returns a certificate for host.
func (a authority) serving(t testing.TB, host string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

func poolOf(authorities ...authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a.certificate)
	}
	return pool
}

func TestParseBundle(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	garbage := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString([]byte("no certificate")) + "\n-----END CERTIFICATE-----\n"
	key := "-----BEGIN EC PRIVATE KEY-----\nY2FuYXJ5\n-----END EC PRIVATE KEY-----\n"
	const torn = "is not a complete PEM block on lines of its own"
	for _, tc := range []struct {
		reason   string
		bundle   string
		want     []authority
		problems []string
	}{
		{reason: "operators create bundles empty", bundle: " \n"},
		{reason: "one", bundle: a.pem, want: []authority{a}},
		{reason: "two, with the comments that tools write", bundle: "# a\n" + a.pem + "\n# b\n" + b.pem, want: []authority{a, b}},
		{
			reason: "a bad one among good ones", bundle: a.pem + garbage + b.pem, want: []authority{a, b},
			problems: []string{"block 2 of 3 is not a certificate that can be read"},
		},
		{
			reason: "one that was not copied whole", bundle: a.pem + b.pem[:len(b.pem)/2], want: []authority{a},
			problems: []string{"block 2 of 2 " + torn},
		},
		{
			reason: "one that was not copied whole, in front", bundle: a.pem[:len(a.pem)/2] + "\n" + b.pem, want: []authority{b},
			problems: []string{"block 1 of 2 " + torn},
		},
		{
			reason: "put together without a newline in between", bundle: strings.TrimSpace(a.pem) + b.pem,
			problems: []string{"block 1 of 2 " + torn, "block 2 of 2 " + torn},
		},
		{
			reason: "a private key is not quoted", bundle: a.pem + key, want: []authority{a},
			problems: []string{"block 2 of 2 is not a plain CERTIFICATE"},
		},
		{reason: "no PEM at all", bundle: "canary", problems: []string{"no PEM certificate in it"}},
		{
			reason: "many are counted", bundle: strings.Repeat(garbage, 9) + a.pem, want: []authority{a},
			problems: []string{
				"block 1 of 10 is not a certificate that can be read",
				"block 2 of 10 is not a certificate that can be read",
				"block 3 of 10 is not a certificate that can be read",
				"block 4 of 10 is not a certificate that can be read",
				"block 5 of 10 is not a certificate that can be read",
				"4 more blocks cannot be used",
			},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			certificates, problems := parseBundle([]byte(tc.bundle))
			if diff := cmp.Diff(tc.problems, problems); diff != "" {
				t.Error(diff)
			}
			if got := with(x509.NewCertPool(), certificates); !got.Equal(poolOf(tc.want...)) {
				t.Errorf("%d certificates, want %d", len(certificates), len(tc.want))
			}
			if strings.Contains(fmt.Sprint(problems), "canary") {
				t.Errorf("problems quote the content: %q", problems)
			}
		})
	}
}

// FuzzParseBundle holds what is used to what nodes use.
func FuzzParseBundle(f *testing.F) {
	a, b := newAuthority(f, "a"), newAuthority(f, "b")
	f.Add([]byte(a.pem + b.pem))
	f.Add([]byte(a.pem[:len(a.pem)-5] + b.pem))
	f.Add([]byte(strings.TrimSpace(a.pem) + b.pem))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nA: -----BEGIN b\n\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		nodes := x509.NewCertPool()
		nodes.AppendCertsFromPEM(bundle)
		certificates, problems := parseBundle(bundle)
		if !with(x509.NewCertPool(), certificates).Equal(nodes) {
			t.Errorf("%d certificates are not those of nodes", len(certificates))
		}
		if len(certificates) == 0 && len(problems) == 0 && len(bytes.TrimSpace(bundle)) > 0 {
			t.Error("nothing is used, and nothing is said")
		}
	})
}
