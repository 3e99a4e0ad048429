//go:build integration

package inspect

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// pinnedPool is a pool of three nodes that run two pods of an image by digest, of which one has to be there.
const pinnedPool = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {machineconfiguration.openshift.io/mco-built-in: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-1}
  pinnedImageSets: [SETS]
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: shop}
spec:
  imageDigestMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: cart}}}
---
`

const pinnedNode = `apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  labels: {node-role.kubernetes.io/worker: "", kubernetes.io/hostname: %[1]s, kubernetes.io/os: linux, topology.kubernetes.io/zone: %[1]s}
  annotations:
    machineconfiguration.openshift.io/currentConfig: rendered-worker-1
    machineconfiguration.openshift.io/desiredConfig: rendered-worker-1
    machineconfiguration.openshift.io/state: Done
---
`

const pinnedPod = `apiVersion: v1
kind: Pod
metadata:
  name: cart-%[1]s
  namespace: shop
  labels: {app: cart}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-7d4, uid: 00000000-0000-0000-0000-000000000001, controller: true}]
spec:
  nodeName: %[1]s
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchLabels: {app: cart}}, topologyKey: kubernetes.io/hostname}
  containers: [{name: cart, image: "%[2]s", imagePullPolicy: IfNotPresent}]
---
`

const pinnedMachine = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigNode
metadata: {name: %[1]s}
spec: {node: {name: %[1]s}, pool: {name: worker}, configVersion: {desired: rendered-worker-1}}
---
`

// pinnedStatus is what MCO's daemon writes once its node holds a generation of a set.
const pinnedStatus = `{"status": {"configVersion": {"desired": "rendered-worker-1"},
"pinnedImageSets": [{"name": "pinned-worker-1", "currentGeneration": %[1]d, "desiredGeneration": %[1]d}],
"conditions": [{"type": "PinnedImageSetsProgressing", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": "2099-01-01T00:00:00Z"},
{"type": "PinnedImageSetsDegraded", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": "2099-01-01T00:00:00Z"}]}}`

// TestPin: what pin prints is taken by the API server, and once all nodes hold it, no drain needs a registry.
func TestPin(t *testing.T) {
	testPin(t, func(*cluster.Cluster) {}, "v1")
}

// TestPinFormer: so it is where the API has PinnedImageSets and MachineConfigNodes as v1alpha1 only, as before 4.19.
func TestPinFormer(t *testing.T) {
	testPin(t, func(c *cluster.Cluster) {
		if out, err := c.Kubectl(t.Context(), "", "delete", "crd", "pinnedimagesets.machineconfiguration.openshift.io"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		installFormer(t, c, "0000_80_machine-config_01_pinnedimagesets.crd.yaml", "pinnedimagesets.machineconfiguration.openshift.io")
	}, "v1alpha1")
}

func testPin(t *testing.T, prepare func(*cluster.Cluster), version string) {
	t.Helper()
	front := registries.Start(t)
	image, err := registries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref := "quay.io/shop/cart@" + hash.String()
	c := cluster.New(t)
	prepare(c)
	nodes := []string{"node-a", "node-b", "node-c"}
	manifests := strings.Replace(pinnedPool, "SETS", "", 1)
	for _, n := range nodes {
		manifests += fmt.Sprintf(pinnedNode, n)
	}
	manifests += fmt.Sprintf(pinnedPod, "node-b", ref) + fmt.Sprintf(pinnedPod, "node-c", ref)
	c.Apply(t, manifests)
	patch := func(resource, name, namespace, body string, args ...string) {
		t.Helper()
		if out, err := c.Kubectl(t.Context(), "", append([]string{"patch", resource, name, "-n", namespace, "--type=merge", "-p", body}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, n := range nodes {
		patch("node", n, "", `{"spec": {"taints": null}}`) // of a node that is not ready
		patch("node", n, "", `{"status": {"nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.0"}, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "250"}, "conditions": [{"type": "Ready", "status": "True"}]}}`, "--subresource=status")
	}
	for _, n := range nodes[1:] {
		patch("pod", "cart-"+n, "shop", `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, "--subresource=status")
	}
	patch("pdb", "cart", "shop", `{"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}}`, "--subresource=status")
	change := clitest.Written(t, "change.yaml", `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: shop}
spec:
  imageDigestMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop], mirrorSourcePolicy: NeverContactSource}]
`)
	run := func(args ...string) clitest.Outcome {
		t.Helper()
		args = append(args, "-f", change, "--kubeconfig", c.Kubeconfig, "--registry-ca", clitest.Written(t, "ca.pem", string(front.CA)), "--allow-loopback", "--pull-secret", clitest.Written(t, "pull-secret.json", `{"auths":{}}`))
		for _, host := range []string{"quay.io", "mirror.example.com"} {
			args = append(args, "--resolve", host+"="+front.Addr("any"))
		}
		return invoke(t, "", args...)
	}

	if got := run("pin"); got.Code != cli.ExitDenied || got.Out != "" || !strings.Contains(got.Err, "PinnedImageMissing: nodes would fail to pin it") {
		t.Fatalf("no registry has the image: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if err := front.Push("mirror.example.com/shop/cart:v1", image); err != nil {
		t.Fatal(err)
	}
	got := run("pin")
	if got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "# Pool worker: 1 image; ") || !strings.Contains(got.Out, "compressed") || !strings.Contains(got.Out, "- name: "+ref) {
		t.Fatalf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if !strings.Contains(got.Out, "apiVersion: machineconfiguration.openshift.io/"+version+"\n") {
		t.Errorf("not in the version that is served:\n%s", got.Out)
	}
	pins := clitest.Written(t, "pins.yaml", got.Out)
	if out, err := c.Kubectl(t.Context(), "", "apply", "-f", pins); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wait := func(args ...string) clitest.Outcome {
		t.Helper()
		return clitest.Invoke(t, runBoth, "", append([]string{"rollout", "watch", "--wait-for", pins, "--kubeconfig", c.Kubeconfig}, args...)...)
	}
	patch("machineconfigpool", "worker", "", `{"spec": {"pinnedImageSets": [{"name": "pinned-worker-1"}]}}`)
	const unproven = "Note: no MachineConfigNode is known: whether nodes hold the pinned images cannot be told"
	if got := run("pin"); !strings.Contains(got.Err, unproven) {
		t.Errorf("MachineConfigNode is not served: %s", got.Err)
	}
	if got := wait("--timeout", "2s"); got.Code != cli.ExitTrouble || !strings.Contains(got.Out+got.Err, "has no MachineConfigNode that tells") {
		t.Errorf("MachineConfigNode is not served: exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if version == "v1" {
		c.InstallCRD(t, "machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfignodes-SelfManagedHA-Default.crd.yaml")
	} else {
		installFormer(t, c, "0000_80_machine-config_01_machineconfignodes-SelfManagedHA-Default.crd.yaml", "machineconfignodes.machineconfiguration.openshift.io")
	}
	for _, n := range nodes {
		c.Apply(t, strings.Replace(fmt.Sprintf(pinnedMachine, n), "machineconfiguration.openshift.io/v1", "machineconfiguration.openshift.io/"+version, 1))
	}
	if got := run("pin"); strings.Contains(got.Err, unproven) {
		t.Errorf("every node has a MachineConfigNode: %s", got.Err)
	}
	for _, n := range nodes {
		patch("machineconfignode", n, "", fmt.Sprintf(pinnedStatus, 1), "--subresource=status")
	}
	if got := wait("--timeout", "1m"); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "PinnedImageSet pinned-worker-1 reached the nodes: each of them holds the images.") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	dump := filepath.Join(t.TempDir(), "cluster.json")
	if got := invoke(t, "", "snapshot", "-f", dump, "--kubeconfig", c.Kubeconfig); got.Code != cli.ExitAdmitted {
		t.Fatalf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if out, err := c.Kubectl(t.Context(), "", "delete", "pinnedimagesets", "-l", "app.kubernetes.io/managed-by=mirrorset-guard"); err != nil || !strings.Contains(out, "pinned-worker-1") {
		t.Errorf("%v\n%s", err, out)
	}
}

// runBoth runs the program with the commands of this package, and rollout.
func runBoth(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr, append(Commands(), rollout.New())...)
}

// installFormer installs a definition of v1 as clusters before 4.19 have it: as v1alpha1, with the same fields.
func installFormer(t *testing.T, c *cluster.Cluster, file, name string) {
	t.Helper()
	api, err := cluster.OpenShiftAPI()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(api, "machineconfiguration", "v1", "zz_generated.crd-manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	former := strings.Replace(string(data), " name: v1\n", " name: v1alpha1\n", 1)
	if former == string(data) {
		t.Fatalf("%s has no version v1", file)
	}
	c.Apply(t, former)
	if out, err := c.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "crd/"+name, "--timeout=30s"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
