package image

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
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

// node pulls by the nodes' own code (test/truth/puller).
type node struct {
	puller, arch string
	authFile     string // "": it has no credentials
}

func newNode(t *testing.T, platform string) node {
	t.Helper()
	n := node{puller: filepath.Join(t.TempDir(), "puller"), arch: strings.TrimPrefix(platform, "linux/")}
	// As test/truth builds it, so that it is compiled once.
	build := exec.Command("go", "build", "-tags", "containers_image_openpgp,containers_image_fulcio_stub,containers_image_rekor_stub", "-o", n.puller, ".")
	build.Dir = filepath.Join(repo.Root(), "test", "truth", "puller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return n
}

// pull returns why n does not pull an image under a policy that requires signatures by a key, "" if it
// does.
func (n node) pull(t *testing.T, image, key string) string {
	t.Helper()
	registry, _, _ := strings.Cut(image, "/")
	policy, err := json.Marshal(map[string]any{"default": []any{map[string]string{"type": "sigstoreSigned", "keyPath": key}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, dir+"/policy.json", string(policy))
	writeFile(t, dir+"/registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", registry))
	writeFile(t, dir+"/registries.d/all.yaml", "default-docker:\n  use-sigstore-attachments: true\n")
	pull := exec.CommandContext(t.Context(), n.puller, "-registries-conf", dir+"/registries.conf", "-registries-conf-dir", os.DevNull,
		"-policy", dir+"/policy.json", "-registries.d", dir+"/registries.d", "-authfile", n.authFile, "-arch", n.arch, image, dir+"/pulled")
	output, err := pull.CombinedOutput()
	if err != nil {
		return string(output)
	}
	return ""
}
