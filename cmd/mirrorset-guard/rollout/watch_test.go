//go:build integration

package rollout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// A watched is a rollout watch in this process that a test follows.
type watched struct {
	t      *testing.T
	stop   context.CancelFunc
	code   chan int
	lines  chan string
	seen   []string
	stderr bytes.Buffer
}

// startWatch starts rollout watch with args, on a pipe.
func startWatch(t *testing.T, args ...string) *watched {
	t.Helper()
	return watchWith(t, newWatchOptions(), args...)
}

// impatientWatch is startWatch for a watch that takes what stands still for 1 s for stalled.
func impatientWatch(t *testing.T, args ...string) *watched {
	t.Helper()
	o := newWatchOptions()
	o.stallAfter = time.Second
	return watchWith(t, o, args...)
}

func watchWith(t *testing.T, o *watchOptions, args ...string) *watched {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &watched{t: t, stop: stop, code: make(chan int, 1), lines: make(chan string, 1000)}
	r, out := io.Pipe()
	go func() {
		w.code <- cli.Run(ctx, append([]string{"mirrorset-guard", "watch"}, args...), strings.NewReader(""), out, &w.stderr, o.command())
		out.Close() //nolint:errcheck // a pipe
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			w.lines <- lines.Text()
		}
		close(w.lines)
	}()
	t.Cleanup(func() {
		stop()
		for range w.lines {
		}
		<-ended
	})
	return w
}

// await waits for a line that has all parts.
func (w *watched) await(parts ...string) string {
	w.t.Helper()
	limit := time.After(clitest.WatchLimit)
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("it ended without a line with %q:\n%s\n%s", parts, strings.Join(w.seen, "\n"), &w.stderr)
			}
			w.seen = append(w.seen, line)
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return line
			}
		case <-limit:
			w.t.Fatalf("no line with %q within %s:\n%s", parts, clitest.WatchLimit, strings.Join(w.seen, "\n"))
		}
	}
}

// end waits for the end, and returns the exit code and what was written to standard error.
func (w *watched) end() (int, string) {
	w.t.Helper()
	select {
	case code := <-w.code:
		for line := range w.lines {
			w.seen = append(w.seen, line)
		}
		return code, w.stderr.String()
	case <-time.After(clitest.WatchLimit):
		w.t.Fatalf("it has not ended within %s:\n%s", clitest.WatchLimit, strings.Join(w.seen, "\n"))
		return 0, ""
	}
}

// annotate sets what MCO and its daemon write on a node; "" removes.
func (c realCluster) annotate(t *testing.T, node string, keys map[string]string) {
	t.Helper()
	annotations := map[string]any{}
	for key, value := range keys {
		annotations["machineconfiguration.openshift.io/"+key] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	c.patchNode(t, node, patch)
}

func (c realCluster) patchNode(t *testing.T, node string, patch []byte) {
	t.Helper()
	if _, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c realCluster) cordon(t *testing.T, node string, is bool) {
	t.Helper()
	c.patchNode(t, node, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is))
}

// target gives a pool another rendered config to bring to its nodes.
func (c realCluster) target(t *testing.T, pool, config string) {
	t.Helper()
	c.patchPool(t, pool, fmt.Sprintf(`{"spec":{"configuration":{"name":%q}}}`, config))
}

func (c realCluster) patchPool(t *testing.T, pool, patch string, subresources ...string) {
	t.Helper()
	if _, err := c.pools().Patch(t.Context(), pool, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		t.Fatal(err)
	}
}

// counted writes what MCO says of a pool once all nodes have a config.
func (c realCluster) counted(t *testing.T, pool, config string, machines int) {
	t.Helper()
	c.patchPool(t, pool, fmt.Sprintf(`{"status":{"configuration":{"name":%q},"machineCount":%d,"updatedMachineCount":%[2]d,"readyMachineCount":%[2]d,"unavailableMachineCount":0,"degradedMachineCount":0,"conditions":[]}}`, config, machines), "status")
}

// update plays the daemon that brings a config to a node.
func (c realCluster) update(t *testing.T, node, config string) {
	t.Helper()
	c.annotate(t, node, map[string]string{"desiredConfig": config, "currentConfig": config, "state": "Done"})
}

const (
	watchSet = `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec:
  imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]
`
)

// newWatchCluster returns a cluster with two workers that are done with rendered-worker-1.
// rendered-worker-2 has the entry of watchSet, which is not there.
func newWatchCluster(t *testing.T) realCluster {
	t.Helper()
	c := newCluster(t, cluster.Restartable)
	c.Apply(t, clitest.WatchPool)
	c.Apply(t, renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []"))
	c.Apply(t, renderedConfig("rendered-worker-2", confWith, "kernelArguments: []"))
	for _, node := range []string{"node-a", "node-b"} {
		c.Apply(t, rolloutNode(node, "rendered-worker-1", "rendered-worker-1", "Done", ""))
		if _, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	c.reset(t)
	return c
}

// reset makes the cluster what it was when it was new.
func (c realCluster) reset(t *testing.T) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), "", "delete", "imagetagmirrorset", "--all"); err != nil {
		t.Fatal(out)
	}
	c.target(t, "worker", "rendered-worker-1")
	c.patchPool(t, "worker", `{"spec":{"paused":false}}`)
	for _, node := range []string{"node-a", "node-b"} {
		c.annotate(t, node, map[string]string{
			"currentConfig": "rendered-worker-1", "desiredConfig": "rendered-worker-1", "state": "Done", "reason": "", "desiredDrain": "", "lastAppliedDrain": "",
		})
		c.cordon(t, node, false)
	}
	c.counted(t, "worker", "rendered-worker-1", 2)
}

// TestRolloutWatch follows rollouts on a real API server, on which the test plays MCO.
func TestRolloutWatch(t *testing.T) {
	c := newWatchCluster(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, realCluster)
	}{
		{"nothing to do", testWatchNothing},
		{"wait for what nobody has applied yet", testWatchWaitFor},
		{"a degraded pool", testWatchDegraded},
		{"nothing happens", testWatchNothingHappens},
		{"--timeout", testWatchTimeout},
		{"mistakes", testWatchMistakes},
		{"rights", testWatchRights},
		{"pools are deleted", testWatchVanish},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.reset(t)
			tt.test(t, c)
		})
	}
}

func (w *watched) want(code int, parts ...string) {
	w.t.Helper()
	got, stderr := w.end()
	all := strings.Join(w.seen, "\n") + "\n" + stderr
	if got != code {
		w.t.Errorf("exit code %d, want %d\n%s", got, code, all)
	}
	for _, part := range parts {
		if !strings.Contains(all, part) {
			w.t.Errorf("%q is not in\n%s", part, all)
		}
	}
}

func testWatchNothing(t *testing.T, c realCluster) {
	startWatch(t, "--kubeconfig", c.Kubeconfig).want(0, "pool worker is updated: 2 nodes", "Updated: all 2 nodes have what the mirror objects ask for.")
}

// testWatchWaitFor goes through all that may be missing of what a file asks for.
func testWatchWaitFor(t *testing.T, c realCluster) {
	file := clitest.Written(t, "shop.yaml", watchSet)
	w := startWatch(t, "-o", "json", "--wait-for", file, "--kubeconfig", c.Kubeconfig)
	w.await(`"PoolFound"`)
	missing := func(part string) {
		t.Helper()
		got := impatientWatch(t, "--wait-for", file, "--kubeconfig", c.Kubeconfig)
		got.want(1, "Nothing has happened for", part)
	}
	missing("in the cluster, 1 object is not as the file says: ImageTagMirrorSet shop")
	c.Apply(t, strings.Replace(watchSet, "mirror.example.com/shop", "mirror.example.com/other", 1))
	missing("in the cluster, 1 object is not as the file says: ImageTagMirrorSet shop")
	c.Apply(t, watchSet)
	missing("MCO has not rendered what the mirror objects ask for yet, for worker")
	c.target(t, "worker", "rendered-worker-2")
	w.await(`"PoolBegan"`)
	c.update(t, "node-a", "rendered-worker-2")
	w.await(`"NodeDone"`)
	c.update(t, "node-b", "rendered-worker-2") // MCO need not have counted
	w.want(0, "ImageTagMirrorSet shop reached the nodes of pools: 2 nodes have what the mirror objects ask for.")
	for _, line := range w.seen {
		var e v1alpha1.RolloutEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.APIVersion != "mirrorset-guard.io/v1alpha1" || e.Kind != "RolloutEvent" || e.Time.IsZero() || e.Message == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func testWatchDegraded(t *testing.T, c realCluster) {
	c.Apply(t, watchSet)
	c.target(t, "worker", "rendered-worker-2")
	w := startWatch(t, "--kubeconfig", c.Kubeconfig)
	w.await("pool worker is updating: 0 of 2 nodes have rendered-worker-2")
	c.annotate(t, "node-a", map[string]string{"desiredConfig": "rendered-worker-2", "state": "Degraded", "reason": "\x1b[2Junexpected on-disk state"})
	w.want(1, "node node-a (pool worker) is degraded: ", "Pool worker is degraded: node node-a: ", "unexpected on-disk state; mirrorset-guard rollout diagnose says what can be done")

	// The change that is waited for may be the remedy: there is time for it.
	repair := startWatch(t, "--wait-for", clitest.Written(t, "shop.yaml", watchSet), "--kubeconfig", c.Kubeconfig)
	repair.await("node node-a (pool worker) is degraded")
	c.annotate(t, "node-a", map[string]string{"currentConfig": "rendered-worker-2", "state": "Done", "reason": ""})
	c.update(t, "node-b", "rendered-worker-2")
	repair.want(0, "pool worker is no longer degraded")
}

func testWatchNothingHappens(t *testing.T, c realCluster) {
	c.Apply(t, watchSet)
	impatientWatch(t, "--kubeconfig", c.Kubeconfig).want(1, "Nothing has happened for", "MCO has not rendered what the mirror objects ask for yet, for worker")
}

func testWatchTimeout(t *testing.T, c realCluster) {
	c.Apply(t, watchSet)
	c.target(t, "worker", "rendered-worker-2")
	startWatch(t, "--timeout", "1s", "--kubeconfig", c.Kubeconfig).want(2, "--timeout has expired")
	w := startWatch(t, "--kubeconfig", c.Kubeconfig)
	w.await("pool worker is updating")
	w.stop()
	w.want(2, "interrupted; still missing: 0 of 2 nodes have what the mirror objects ask for; without: node-a, node-b")
}

func testWatchMistakes(t *testing.T, c realCluster) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--timeout", "-1s"}, "--timeout -1s: must not be negative; 0 means no limit"},
		{[]string{"-o", "yaml"}, `--output "yaml": choose one of lines, json`},
		{[]string{"--pool", "gpu", "--pool", "worker"}, `--pool: no pool "gpu": there are worker`},
		{[]string{"--wait-for", "none.yaml"}, "--wait-for: stat none.yaml: no such file or directory"},
		{[]string{"--wait-for", clitest.Written(t, "x.yaml", "kind: Pod\napiVersion: v1\n")}, "--wait-for: no ImageTagMirrorSet"},
	} {
		startWatch(t, append(tt.args, "--kubeconfig", c.Kubeconfig)...).want(2, tt.want)
	}
}

func testWatchRights(t *testing.T, c realCluster) {
	startWatch(t, "--kubeconfig", c.KubeconfigAs(t, "nobody")).want(2, "nodes could not be read", "cluster-reader")
	read := []string{"get", "list", "watch"}
	c.grant(t, "nodes-only", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read})
	startWatch(t, "--kubeconfig", c.KubeconfigAs(t, "nodes-only")).want(2, "machineconfigpools could not be read")
	c.grant(t, "no-mirrors", rbacv1.PolicyRule{APIGroups: []string{"", "machineconfiguration.openshift.io"}, Resources: []string{"*"}, Verbs: read})
	startWatch(t, "--kubeconfig", c.KubeconfigAs(t, "no-mirrors")).want(2, "pool worker is updated: 2 nodes", "what the mirror objects ask for could not be read")
	c.grant(t, "watcher", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: read})
	startWatch(t, "--kubeconfig", c.KubeconfigAs(t, "watcher")).want(0)
}

func testWatchVanish(t *testing.T, c realCluster) {
	c.Apply(t, watchSet)
	c.Apply(t, strings.NewReplacer("worker", "infra", "rendered-worker-1", "rendered-worker-1").Replace(strings.Replace(clitest.WatchPool, ", labels: {machineconfiguration.openshift.io/mco-built-in: \"\"}", "", 1)))
	c.counted(t, "infra", "rendered-worker-1", 0)
	c.target(t, "infra", "rendered-worker-2")
	c.target(t, "worker", "rendered-worker-2")
	w := startWatch(t, "--kubeconfig", c.Kubeconfig)
	w.await("pool infra is")
	only := startWatch(t, "--pool", "infra", "--keep-going", "--kubeconfig", c.Kubeconfig)
	if line := only.await("pool "); !strings.Contains(line, "pool infra is") {
		t.Errorf("got %s", line)
	}
	if out, err := c.Kubectl(t.Context(), "", "delete", "machineconfigpool", "infra"); err != nil {
		t.Fatal(out)
	}
	w.await("pool infra is gone")
	only.want(2, "pool infra is gone")
	if out, err := c.Kubectl(t.Context(), "", "delete", "machineconfigpool", "worker"); err != nil {
		t.Fatal(out)
	}
	startWatch(t, "--kubeconfig", c.Kubeconfig).want(2, "this cluster has no MachineConfigPools")
}
