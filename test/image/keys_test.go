package image

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// newKey returns files with the halves of a key.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	return newKeyOf(t, elliptic.P256())
}

func newKeyOf(t *testing.T, curve elliptic.Curve) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	known, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	writeFile(t, private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	writeFile(t, public, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: known})))
	return private, public
}

// buildPuller builds test/truth/puller, as test/truth does.
func buildPuller(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "puller")
	build := exec.Command("go", "build", "-tags", "containers_image_openpgp,containers_image_fulcio_stub,containers_image_rekor_stub", "-o", program, ".")
	build.Dir = filepath.Join(cluster.Root(), "test", "truth", "puller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}
