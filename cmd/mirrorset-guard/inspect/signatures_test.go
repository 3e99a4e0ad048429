package inspect

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A signedShop is a cluster whose cart is signed at its source, and has a mirror.
type signedShop struct {
	source, mirror string // registries
	objects        string // of the cluster
	digest         string
}

func newSignedShop(t *testing.T) signedShop {
	t.Helper()
	s := signedShop{source: serveRegistry(t), mirror: serveRegistry(t)}
	cart, err := testregistries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := cart.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.digest = hash.String()
	pushTo(t, s.source+"/shop/cart:v1", cart)
	pushTo(t, s.mirror+"/shop/cart:v1", cart)
	s.sign(t, s.source, signer.Key("release").Sign(s.source+"/shop/cart:v1", s.digest))
	s.objects = cartObjects + fmt.Sprintf(`
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {registrySources: {insecureRegistries: [%q, %q]}}
---
apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: signed}
spec:
  scopes: [%q]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: %s}}}
---
apiVersion: config.openshift.io/v1
kind: ImagePolicy
metadata: {name: own, namespace: team}
spec:
  scopes: [%q]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: %s}}}
`, s.source, s.mirror, s.source+"/shop", base64.StdEncoding.EncodeToString(signer.Key("release").PEM()), s.source+"/team", base64.StdEncoding.EncodeToString(signer.Key("own").PEM()))
	s.objects = strings.ReplaceAll(s.objects, "quay.example.com/shop/cart:v1", s.source+"/shop/cart:v1")
	return s
}

const cartObjects = `apiVersion: apps/v1
kind: Deployment
metadata: {namespace: openshift-ingress, name: router-default}
spec: {selector: {matchLabels: {app: cart}}, template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: app, image: "quay.example.com/shop/cart:v1"}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
`

func serveRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func pushTo(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	tag, err := imagename.NewTag(ref, imagename.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
}

func (s signedShop) sign(t *testing.T, registry string, signatures ...signing.Signature) {
	t.Helper()
	img, err := testregistries.NewAttached(signer.Attach(signatures...))
	if err != nil {
		t.Fatal(err)
	}
	pushTo(t, registry+"/shop/cart:"+signer.Tag(s.digest), img)
}

func (s signedShop) mirrors() string {
	return tagSet("shop", s.source+"/shop", "AllowContactingSource", s.mirror+"/shop")
}

// TestExplainSignatures: what nodes require of an image, by which policy, where they look for
// it and what is there.
func TestExplainSignatures(t *testing.T) {
	s := newSignedShop(t)
	s.sign(t, s.mirror, signer.Key("other").Sign(s.source+"/shop/cart:v1", s.digest))
	dump, image := clitest.Written(t, "dump.yaml", s.objects+s.mirrors()), s.source+"/shop/cart:v1"
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{nil, []string{
			"required by ClusterImagePolicy signed, scope " + s.source + "/shop: a signature by key",
			"for the image, with a tag or digest", "mirror, tried without verifying certificates (insecureRegistries of Image cluster), signatures looked for",
		}},
		{[]string{s.source + "/team/app:v1"}, []string{"Note: an ImagePolicy makes it differ for pods of team; see --namespace"}},
		{[]string{s.source + "/team/app:v1", "-n", "team"}, []string{"required by ImagePolicy team/own, scope " + s.source + "/team: a signature by key"}},
		{[]string{"--probe", "--allow-loopback"}, []string{
			"signatures looked for: present; signature rejected: cryptographic signature verification failed",
			"signatures looked for: present; signature accepted",
		}},
	} {
		got := invoke(t, "", append([]string{"explain", "--from", dump, image}, tt.args...)...)
		flat := strings.Join(strings.Fields(got.Out), " ")
		for _, want := range tt.want {
			if !strings.Contains(flat, want) {
				t.Errorf("explain %v: want %q in\n%s%s", tt.args, want, got.Out, got.Err)
			}
		}
	}
	doc := explained(t, []string{"explain", "--from", dump, "--probe", "--allow-loopback", "-o", "json", image})
	place := doc.Images[0].After.Sources[0]
	if place.Required == nil || len(place.Required.Requirements) != 1 || !place.LooksForSignatures || len(place.Signatures) != 1 || place.Signatures[0].State != "rejected" {
		t.Errorf("got %+v", place)
	}
}

// TestRenderPolicies: policy.json, those of namespaces and the file of registries.d stand beside
// registries.conf.
func TestRenderPolicies(t *testing.T) {
	s := newSignedShop(t)
	dump, change := clitest.Written(t, "dump.yaml", s.objects), clitest.Written(t, "change.yaml", s.mirrors())
	got := invoke(t, "", "render", "--from", dump, "-f", change, "-o", "files")
	for _, want := range []string{"==> /etc/containers/registries.conf <==", "==> /etc/containers/policy.json <==", "==> /etc/containers/registries.d/sigstore-registries.yaml <==", "==> /etc/crio/policies/team.json <==", "sigstoreSigned", s.mirror + "/shop:\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("want %q in\n%s%s", want, got.Out, got.Err)
		}
	}
	got = invoke(t, "", "render", "--from", dump, "-f", change, "-o", "diff")
	for _, want := range []string{"+++ registries.conf after the change", "+++ /etc/containers/registries.d/sigstore-registries.yaml after the change", "+  " + s.mirror + "/shop:\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("want %q in\n%s%s", want, got.Out, got.Err)
		}
	}
	if strings.Contains(got.Out, "policy.json") {
		t.Errorf("policy.json does not change:\n%s", got.Out)
	}
}

// TestSignatureRemedy carries out the command that a denial prints: the change is then admitted.
func TestSignatureRemedy(t *testing.T) {
	skip.UnlessIntegration(t)
	skopeo, err := exec.LookPath("skopeo")
	if err != nil {
		skip.Now(t, fmt.Errorf("skopeo is not installed: %w", err))
	}
	s := newSignedShop(t)
	args := []string{"check", "--from", clitest.Written(t, "dump.yaml", s.objects), "-f", clitest.Written(t, "change.yaml", s.mirrors()), "--allow-loopback"}
	got := invoke(t, "", args...)
	remedy := regexp.MustCompile(`skopeo (copy --preserve-digests .*)`).FindStringSubmatch(got.Out)
	if got.Code != cli.ExitDenied || !strings.Contains(got.Out, "SignatureMissing") || remedy == nil {
		t.Fatalf("want a denial with a command, got %d\n%s%s", got.Code, got.Out, got.Err)
	}
	// Nodes accept anything here but what policies are about; so does whoever copies.
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), skopeo, append([]string{"--policy", policy}, strings.Fields(remedy[1])...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if got := invoke(t, "", args...); got.Code != 0 {
		t.Errorf("denied after the remedy: %d\n%s%s", got.Code, got.Out, got.Err)
	}
}
