package inspect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// plainRegistry starts a registry without TLS, and returns its address.
func plainRegistry(t *testing.T) string {
	t.Helper()
	registries.Need(t)
	p, err := registries.StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p.Addr
}

// A plainHouse is a mirrorHouse whose registries have no TLS, so that skopeo reaches them by their names.
type plainHouse struct {
	mirrorHouse
	source, mirror string
}

func newPlainHouse(t *testing.T) plainHouse {
	t.Helper()
	h := plainHouse{source: plainRegistry(t), mirror: plainRegistry(t)}
	cart, err := registries.Image("cart")
	signed, otherErr := registries.Image("signed")
	index, indexErr := registries.Index("pay")
	if err := errors.Join(err, otherErr, indexErr); err != nil {
		t.Fatal(err)
	}
	index = mutate.IndexMediaType(index, types.DockerManifestList) // old versions of skopeo convert what is mixed
	indexHash, err := index.Digest()
	signedHash, otherErr := signed.Digest()
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	h.pay, h.signed = indexHash.String(), signedHash.String()
	pushTo(t, h.source+"/shop/cart:v1", cart)
	pushTo(t, h.source+"/safe/signed:v1", signed)
	tag, err := imagename.NewTag(h.source+"/shop/pay:v1", imagename.Insecure)
	if err == nil {
		err = remote.WriteIndex(tag, index)
	}
	attached, otherErr := registries.NewAttached(signer.Attach(signer.Key("release").Sign(h.source+"/safe/signed:v1", h.signed)))
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	pushTo(t, h.source+"/safe/signed:"+signer.Tag(h.signed), attached)
	hosts := strings.NewReplacer("quay.io", h.source, house, h.mirror)
	h.dump = clitest.Written(t, "cluster.yaml", hosts.Replace(h.cluster())+fmt.Sprintf("---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {insecureRegistries: [%q, %q]}}\n", h.source, h.mirror))
	h.change = clitest.Written(t, "change.yaml", hosts.Replace(houseMirrors))
	h.flags = []string{"--allow-loopback"}
	return h
}

// skopeoFolder returns a folder with a skopeo that takes images from anywhere.
func skopeoFolder(t *testing.T) string {
	t.Helper()
	skopeo, err := exec.LookPath("skopeo")
	if err != nil {
		skip.Now(t, fmt.Errorf("skopeo is not installed: %w", err))
	}
	policy := clitest.Written(t, "policy.json", `{"default":[{"type":"insecureAcceptAnything"}]}`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "skopeo"), fmt.Appendf(nil, "#!/bin/sh\nexec %s --policy %s \"$@\"\n", skopeo, policy), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlanCarriedOut: a shell runs what --plan prints, with the real skopeo against real registries; the
// change is then admitted, signatures included, and nothing is missing.
func TestPlanCarriedOut(t *testing.T) {
	path := skopeoFolder(t)
	for _, format := range []string{"skopeo", "sh"} {
		t.Run(format, func(t *testing.T) {
			h := newPlainHouse(t)
			if got := h.check(t, nil); got.Code != cli.ExitDenied {
				t.Fatalf("the mirror is empty, and the exit code %d\n%s%s", got.Code, got.Out, got.Err)
			}
			plan := h.check(t, nil, "--plan", format, "--missing")
			if plan.Code != cli.ExitAdmitted || !strings.Contains(plan.Out, "3 images and 1 signature") {
				t.Fatalf("exit code %d\n%s%s", plan.Code, plan.Out, plan.Err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-e")
			cmd.Stdin = strings.NewReader(plan.Out)
			cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, plan.Out)
			}
			if got := h.check(t, nil); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "all verified") {
				t.Errorf("after the plan: exit code %d\n%s%s", got.Code, got.Out, got.Err)
			}
			if got := h.check(t, nil, "--plan", format, "--missing"); !strings.Contains(got.Out, "0 images and 0 signatures") {
				t.Errorf("something is missing after the plan:\n%s%s", got.Out, got.Err)
			}
			if got := h.check(t, nil, "--plan", format); !strings.Contains(got.Out, "3 images and 1 signature") {
				t.Errorf("the whole plan is not what was copied:\n%s%s", got.Out, got.Err)
			}
		})
	}
}

// TestPlanOfAFailure: a script that cannot copy one image copies the others, and fails.
func TestPlanOfAFailure(t *testing.T) {
	path := skopeoFolder(t)
	h := newPlainHouse(t)
	plan := h.check(t, nil, "--plan", "sh", "--missing").Out
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(strings.Replace(plan, h.source+"/shop/pay@", h.source+"/shop/none@", 1))
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "1 not copied") {
		t.Errorf("%v: %s", err, out)
	}
	if got := h.check(t, nil, "--plan", "sh", "--missing"); !strings.Contains(got.Out, "1 image and 0 signatures") {
		t.Errorf("the others were not copied:\n%s", got.Out)
	}
}

// TestPlanAsAMapping: what --plan mapping prints is read back as what has been done.
func TestPlanAsAMapping(t *testing.T) {
	h := newMirrorHouse(t)
	plan := h.check(t, nil, "--plan", "mapping", "--missing")
	want := fmt.Sprintf(`# 3 images and 1 signature. Run: oc image mirror --keep-manifest-list=true --filter-by-os=.* -f FILE
quay.io/safe/signed@%[1]s=%[5]s/safe/signed:%[2]s
quay.io/safe/signed:%[3]s=%[5]s/safe/signed:%[3]s
`, h.signed, h.signed[7:], signer.Tag(h.signed), "", house)
	if plan.Code != cli.ExitAdmitted || !strings.HasPrefix(plan.Out, want) {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", plan.Code, plan.Out, plan.Err, want)
	}
	if got := h.check(t, strings.Split(strings.TrimSpace(plan.Out), "\n")); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "all assumed") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	h.Set("quay.io", registries.Unavailable)
	if got := h.check(t, nil, "--plan", "mapping"); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "not all could be determined") {
		t.Errorf("a source that does not answer: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// TestPlanAsAnImageSet: the destination is what the mirrors' paths have in common.
func TestPlanAsAnImageSet(t *testing.T) {
	h := newMirrorHouse(t)
	got := h.check(t, nil, "--plan", "imageset")
	cart, err := registries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := cart.Digest()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`apiVersion: mirror.openshift.io/v2alpha1
kind: ImageSetConfiguration
mirror:
  additionalImages:
  - name: quay.io/safe/signed@%s
  - name: quay.io/shop/cart:v1@%s
    targetRepo: a/b/shop/cart
  - name: quay.io/shop/pay@%s
    targetRepo: a/b/shop/pay
`, h.signed, digest, h.pay)
	if got.Code != cli.ExitAdmitted || !strings.HasSuffix(got.Out, want) || !strings.Contains(got.Out, "--workspace file://WORKSPACE docker://"+house+"\n") {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", got.Code, got.Out, got.Err, want)
	}
}

// TestPlanOfOperators: packages come from the Subscriptions and catalogs of a dump.
func TestPlanOfOperators(t *testing.T) {
	h := newMirrorHouse(t)
	h.dump = clitest.Written(t, "cluster.yaml", h.cluster()+fmt.Sprintf(`---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {namespace: op, name: op.v1.2.3}
spec: {relatedImages: [{name: op, image: "quay.io/shop/pay@%s"}]}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {namespace: op, name: op}
spec: {name: op, channel: stable, source: redhat, sourceNamespace: openshift-marketplace}
status: {installedCSV: op.v1.2.3}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {namespace: openshift-marketplace, name: redhat}
spec: {sourceType: grpc, image: "registry.redhat.io/redhat/redhat-operator-index:v4.22"}
`, h.pay))
	got := h.check(t, nil, "--plan", "imageset", "--missing")
	want := `  operators:
  - catalog: registry.redhat.io/redhat/redhat-operator-index:v4.22
    packages:
    - channels:
      - maxVersion: 1.2.3
        minVersion: 1.2.3
        name: stable
      name: op
`
	if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, want) {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", got.Code, got.Out, got.Err, want)
	}
}

// TestPlanOfACluster: of a real API server, which has no OLM.
func TestPlanOfACluster(t *testing.T) {
	h := newMirrorHouse(t)
	c := newCluster(t)
	c.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cart, namespace: default}
spec: {schedule: "0 4 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "quay.io/shop/cart:v1"}]}}}}}
`)
	got := invoke(t, "", append([]string{"check", "-f", h.change, "--kubeconfig", c.Kubeconfig, "--plan", "imageset", "--missing"}, h.flags...)...)
	if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "  additionalImages:\n  - name: quay.io/shop/cart:v1@sha256:") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}
