package rollout

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

const (
	manyNodes = 500
	// steady is how long requests are counted.
	steady = 8 * time.Second
	// mostMemory is how much more heap a watch of so many nodes may have.
	mostMemory = 32 << 20
)

// auditRequests logs each request once it is known who sends it: a watch when it begins and
// ends.
const auditRequests = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata, omitStages: [RequestReceived]}]
`

// TestRolloutWatchMany: 500 nodes that report all the time cost less than a request a second,
// and a rollout of all of them at once is followed to its end.
func TestRolloutWatchMany(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditRequests), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, cluster.WithAudit(policy, log))
	c.serveAll(t)
	c.Apply(t, clitest.WatchPool)
	c.Apply(t, renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []"))
	c.Apply(t, renderedConfig("rendered-worker-2", confWith, "kernelArguments: []"))
	c.counted(t, "worker", "rendered-worker-1", manyNodes)
	c.Apply(t, watchSet)
	c.eachNode(t, func(kube kubernetes.Interface, name string) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}, Annotations: nodeAnnotations("rendered-worker-1"),
		}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		return err
	})
	c.grant(t, "watcher", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})

	before := heap()
	w := startWatch(t, "--kubeconfig", c.KubeconfigAs(t, "watcher"))
	w.await("pool worker is updated: 500 nodes")
	requests := requestsOf(t, log, "watcher")
	if requests < 10 {
		t.Fatalf("%d requests to begin with: these are not all", requests)
	}
	stop, reporting := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reporting)
		c.report(t, stop)
	}()
	began := time.Now()
	time.Sleep(steady) // a rate has no event
	close(stop)
	<-reporting
	n, more := requestsOf(t, log, "watcher")-requests, heap()-before
	took := time.Since(began)
	t.Logf("%d requests within %s, %d kB more heap", n, took, more>>10)
	if n > int(took/time.Second) {
		t.Errorf("%d requests within %s, want less than one a second", n, took)
	}
	if more > mostMemory {
		t.Errorf("%d MB more heap than before", more>>20)
	}

	c.patchPool(t, "worker", `{"spec":{"maxUnavailable":"100%"}}`)
	c.target(t, "worker", "rendered-worker-2")
	w.await("pool worker begins to get rendered-worker-2")
	c.eachNode(t, func(kube kubernetes.Interface, name string) error {
		return patchAnnotations(t, kube, name, nodeAnnotations("rendered-worker-2"))
	})
	c.counted(t, "worker", "rendered-worker-2", manyNodes)
	w.want(0, "; 500 of 500", "pool worker is updated: all 500 nodes have rendered-worker-2")
	if n := requestsOf(t, log, "watcher"); n < 10 || n > 200 {
		t.Errorf("%d requests in all: these are not the ones, or too many", n)
	}
}

// serveAll makes the API server serve what OpenShift's does of a rollout, so that nothing is
// asked for again and again.
func (c realCluster) serveAll(t *testing.T) {
	t.Helper()
	for _, r := range []struct{ plural, group, kind string }{
		{"machineconfignodes", "machineconfiguration.openshift.io", "MachineConfigNode"},
		{"controllerconfigs", "machineconfiguration.openshift.io", "ControllerConfig"},
		{"machineconfigurations", "operator.openshift.io", "MachineConfiguration"},
		{"infrastructures", "config.openshift.io", "Infrastructure"},
		{"clusteroperators", "config.openshift.io", "ClusterOperator"},
	} {
		c.Apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: %[2]s
  scope: Cluster
  names: {kind: %[3]s, plural: %[1]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, r.plural, r.group, r.kind))
	}
	if out, err := c.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all"); err != nil {
		t.Fatal(out)
	}
}

func nodeAnnotations(config string) map[string]string {
	const mco = "machineconfiguration.openshift.io/"
	return map[string]string{mco + "currentConfig": config, mco + "desiredConfig": config, mco + "state": "Done"}
}

func patchAnnotations(t *testing.T, kube kubernetes.Interface, node string, annotations map[string]string) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// eachNode does something to every node, many at once.
func (c realCluster) eachNode(t *testing.T, do func(kube kubernetes.Interface, name string) error) {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.QPS = -1
	kube := kubernetes.NewForConfigOrDie(config)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range manyNodes {
		group.Go(func() error { return do(kube, fmt.Sprintf("node-%03d", i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// report plays kubelets that report, until stop is closed.
func (c realCluster) report(t *testing.T, stop <-chan struct{}) {
	kube := kubernetes.NewForConfigOrDie(c.Config)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if err := patchAnnotations(t, kube, fmt.Sprintf("node-%03d", i%manyNodes), map[string]string{"example.com/heartbeat": fmt.Sprint(i)}); err != nil {
			t.Error(err)
			return
		}
	}
}

// requestsOf counts the requests of a user who is impersonated.
func requestsOf(t *testing.T, log, user string) int {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	requests := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			AuditID          string `json:"auditID"`
			ImpersonatedUser struct {
				Username string `json:"username"`
			} `json:"impersonatedUser"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // a line that is still being written
		}
		if e.ImpersonatedUser.Username == user {
			requests[e.AuditID] = true
		}
	}
	return len(requests)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
