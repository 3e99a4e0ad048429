//go:build integration

package rollout

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// heldUp are node-a, which is being drained, and node-b with what comes instead, which cannot
// be pulled there.
const heldUp = `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, labels: {app: cart}}
spec: {nodeName: node-a, automountServiceAccountToken: false, containers: [{name: c, image: "quay.io/shop/cart:v1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-2, namespace: shop, labels: {app: cart}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart, uid: "1", controller: true}]}
spec: {nodeName: node-b, automountServiceAccountToken: false, containers: [{name: c, image: "quay.io/shop/cart:v1"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: cart}}}
`

const (
	budgetStatus = `{"status":{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":2,"observedGeneration":1}}`
	runningPod   = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	waitingPod   = `{"status":{"phase":"Pending","containerStatuses":[{"name":"c","image":"","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off"}}}]}}`
	readyStatus  = `{"status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"architecture":"amd64","operatingSystem":"linux","bootID":"","containerRuntimeVersion":"","kernelVersion":"","kubeProxyVersion":"","kubeletVersion":"","machineID":"","osImage":"","systemUUID":""}}}`
)

// status writes the status of an object.
func (c realCluster) status(t *testing.T, patch string, object ...string) {
	t.Helper()
	args := append([]string{"patch", "--subresource=status", "--type=merge", "-p", patch}, object...)
	if out, err := c.Kubectl(t.Context(), "", args...); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// TestRolloutDiagnoseAsks: of a live cluster it asks the API server for evictions, and registries
// for images, as far as rights go; and changes nothing.
func TestRolloutDiagnoseAsks(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	front := registries.Start(t)
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, front.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	front.Set("mirror.example.com", registries.Denied)
	for _, manifest := range []string{
		livePools, heldUp, renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []"), renderedConfig("rendered-worker-2", confWith, "kernelArguments: []"),
		rolloutNode("node-a", "rendered-worker-1", "rendered-worker-2", "Working", strings.Split(drainingNode, "\n  managedFields")[0]),
		rolloutNode("node-b", "rendered-worker-2", "rendered-worker-2", "Done", ""),
	} {
		c.Apply(t, manifest)
	}
	c.status(t, budgetStatus, "-n", "shop", "pdb", "cart")
	c.status(t, runningPod, "-n", "shop", "pod", "cart-1")
	c.status(t, waitingPod, "-n", "shop", "pod", "cart-2")
	c.status(t, `{"status":{"machineCount":2}}`, "machineconfigpool", "worker")
	for _, node := range []string{"node-a", "node-b"} {
		c.status(t, readyStatus, "node", node)
		if out, err := c.Kubectl(t.Context(), "", "taint", "node", node, "node.kubernetes.io/not-ready-"); err != nil { // as the node controller does
			t.Fatal(out)
		}
	}
	read := []string{"get", "list", "watch"}
	c.grant(t, "cluster-reader", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{
		"pods", "nodes", "namespaces", "persistentvolumes", "poddisruptionbudgets", "machineconfigpools", "machineconfigs", "machineconfignodes", "controllerconfigs",
		"deployments", "statefulsets", "replicasets", "replicationcontrollers", "resourcequotas", "infrastructures", "clusteroperators", "clusterversions", "machineconfigurations", "configmaps", "imagetagmirrorsets", "imagedigestmirrorsets",
		"imagecontentsourcepolicies", "clusterimagepolicies", "imagepolicies", "featuregates", "images", "proxies", "criocredentialproviderconfigs",
	}, Verbs: read})
	before := c.versions(t)
	diagnose := func(kubeconfig string, args ...string) (clitest.Outcome, v1alpha1.HoldUp) {
		t.Helper()
		got := invoke(t, "", append([]string{
			"rollout", "diagnose", "-o", "json", "--kubeconfig", kubeconfig, "--registry-ca", ca,
			"--resolve", "mirror.example.com=" + front.Addr("mirror.example.com"), "--resolve", "quay.io=" + front.Addr("quay.io"),
		}, args...)...)
		var d v1alpha1.Diagnosis
		if err := json.Unmarshal([]byte(got.Out), &d); err != nil || got.Code != 1 || len(d.Findings) != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", got.Code, err, got.Out, got.Err)
		}
		return got, d.Findings[0]
	}
	chain := func(f v1alpha1.HoldUp) string { return strings.Join(f.Chain, "\n") }
	const (
		dryRun    = "asked for a dry run of it, the API server says: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget cart needs 1 healthy pods and has 1 currently"
		answers   = "asked just now: mirror.example.com/shop/cart:v1 does not let the nodes in (mirror.example.com answers 401"
		noSource  = "quay.io/shop/cart:v1 does not have it"
		byObjects = "pod shop/cart-1 is not evicted: budget cart allows no disruption: 1 of 2 pods are healthy, and 1 must be"
	)

	// An administrator is told all.
	got, f := diagnose(c.Kubeconfig)
	for _, part := range []string{byObjects, dryRun, answers, noSource} {
		if !strings.Contains(chain(f), part) {
			t.Errorf("no %q in\n%s", part, chain(f))
		}
	}
	if f.Cause != string(causes.ImageNotPulled) || !strings.HasPrefix(f.Remedies[0].Command, "oc set data secret/pull-secret") {
		t.Errorf("got %s, %+v", f.Cause, f.Remedies)
	}

	// With the right credentials the mirror says whether it has the image. They are in no output.
	c.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: pull-secret, namespace: openshift-config}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {"other.example.com": {"auth": "dXNlcjpjYW5hcnk="}}}'}
`)
	front.Set("mirror.example.com", registries.Honest)
	got, f = diagnose(c.Kubeconfig)
	if !strings.Contains(chain(f), "mirror.example.com/shop/cart:v1 does not have it") || strings.Contains(got.Out+got.Err, "canary") || strings.Contains(got.Out, "dXNlcj") {
		t.Errorf("got %s%s", got.Out, got.Err)
	}
	front.PushImage(t, "mirror.example.com/shop/cart:v1", "cart")
	if _, f = diagnose(c.Kubeconfig); !strings.Contains(chain(f), "mirror.example.com/shop/cart:v1 has it") || f.Remedies[0].Command != "oc -n shop delete pod cart-2" {
		t.Errorf("got %s\n%+v", chain(f), f.Remedies)
	}

	// Offline nobody is asked, and a reader is told what else it would take.
	asked := front.Requests()
	if _, f = diagnose(c.Kubeconfig, "--offline"); strings.Contains(chain(f), "asked") || front.Requests() != asked {
		t.Errorf("got %s, %d requests", chain(f), front.Requests()-asked)
	}
	got, f = diagnose(c.KubeconfigAs(t, "cluster-reader"))
	if !strings.Contains(chain(f), byObjects) || strings.Contains(chain(f), "dry run") || !strings.Contains(chain(f), "has it") {
		t.Errorf("got %s", chain(f))
	}
	for _, part := range []string{"the right to create pods/eviction in namespaces shop", "Secret openshift-config/pull-secret may not be read"} {
		if !strings.Contains(got.Out, part) {
			t.Errorf("no %q in\n%s", part, got.Out)
		}
	}
	if after := c.versions(t); after != before {
		t.Errorf("something was changed: %s, before %s", after, before)
	}

	// What the objects say is out of date once the API server would evict.
	c.status(t, `{"status":{"disruptionsAllowed":1,"currentHealthy":2}}`, "-n", "shop", "pdb", "cart")
	if got := invoke(t, "", "rollout", "diagnose", "--kubeconfig", c.Kubeconfig); got.Code != 0 || got.Out != "Nothing is held up.\n" {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	c.nobody(t)
}

// versions says in which state pods and budgets are.
func (c realCluster) versions(t *testing.T) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), "", "get", "pods,pdb", "-n", "shop", "-o", "jsonpath={.items[*].metadata.resourceVersion} {.items[*].metadata.deletionTimestamp}")
	if err != nil {
		t.Fatal(out)
	}
	return out
}

// nobody diagnoses as people who may read next to nothing: each right that it takes is named, and
// the answer is none.
func (c realCluster) nobody(t *testing.T) {
	t.Helper()
	c.grant(t, "pools-only", rbacv1.PolicyRule{APIGroups: []string{"machineconfiguration.openshift.io"}, Resources: []string{"machineconfigpools"}, Verbs: []string{"get", "list", "watch"}})
	got := invoke(t, "", "rollout", "diagnose", "--kubeconfig", c.KubeconfigAs(t, "pools-only"))
	for _, part := range []string{
		"list and watch nodes)", "list and watch pods)", "list and watch poddisruptionbudgets.policy)", "not determined whether something is held up", "MCO rejects the mirror objects",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got.Out+got.Err), " "), part) {
			t.Errorf("no %q in\n%s%s", part, got.Out, got.Err)
		}
	}
	if got.Code != 2 {
		t.Errorf("exit code %d\n%s", got.Code, got.Out)
	}
	if got := invoke(t, "", "rollout", "diagnose", "--kubeconfig", c.KubeconfigAs(t, "nobody")); got.Code != 2 || !strings.Contains(got.Err, "machineconfigpools could not be read") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}
