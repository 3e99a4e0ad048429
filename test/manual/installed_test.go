package manual

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// newInstalled starts an API server with the guard's manifests, and what OpenShift would add to them:
// testdata/installed.txtar. No pod runs: there is no kubelet.
func newInstalled(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New(t)
	archive, err := txtar.ParseFile(filepath.Join("testdata", installed+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := servingCertificate(t)
	values := strings.NewReplacer("{certificate}", base64.StdEncoding.EncodeToString(certificate), "{key}", base64.StdEncoding.EncodeToString(key))
	for _, f := range archive.Files {
		text := values.Replace(string(f.Data))
		switch f.Name {
		case "crds.yaml":
			kubectl(t, c, text, "apply", "-f", "-")
			kubectl(t, c, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=1m")
		case "status.yaml":
			kubectl(t, c, text, "apply", "--server-side", "--subresource=status", "-f", "-")
		case "after.yaml":
			kubectl(t, c, "", "apply", "-k", filepath.Join(top, "manifests", "base"))
			fallthrough
		default:
			kubectl(t, c, text, "apply", "--server-side", "-f", "-")
		}
	}
	return c
}

func kubectl(t *testing.T, c *cluster.Cluster, stdin string, args ...string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), stdin, args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// servingCertificate returns one as the service CA would make it, and its key, in PEM.
func servingCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mirrorset-guard.mirrorset-guard.svc"},
		DNSNames: []string{"mirrorset-guard.mirrorset-guard.svc"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
