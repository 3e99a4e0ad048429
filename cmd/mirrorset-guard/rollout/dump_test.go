package rollout

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestRolloutFromSnapshot: what the rollout commands say of a cluster they say of a dump of it
// as well, and the dump holds no more than they need.
func TestRolloutFromSnapshot(t *testing.T) {
	c := newCluster(t)
	const secret = `kernelArguments: [nosmt]`
	motd := func(text string) string {
		return fmt.Sprintf(`, {path: /etc/motd, contents: {source: "data:,%s"}}]}`+"\n", text)
	}
	withFile := func(config, text string) string {
		return strings.Replace(config, "]}\n", motd(text), 1)
	}
	for _, manifest := range []string{
		livePools, heldUp,
		withFile(renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []"), "canary"), withFile(renderedConfig("rendered-worker-2", confWith, secret), "canary2"),
		rolloutNode("node-a", "rendered-worker-1", "rendered-worker-2", "Working", strings.Split(drainingNode, "\n  managedFields")[0]),
		rolloutNode("node-b", "rendered-worker-2", "rendered-worker-2", "Done", ""),
		rolloutNode("node-c", "rendered-worker-0", "rendered-worker-2", "Degraded", ""),
	} {
		c.Apply(t, manifest)
	}
	c.status(t, budgetStatus, "-n", "shop", "pdb", "cart")
	c.status(t, runningPod, "-n", "shop", "pod", "cart-1")
	c.status(t, waitingPod, "-n", "shop", "pod", "cart-2")
	c.status(t, `{"status":{"machineCount":3}}`, "machineconfigpool", "worker")
	for _, node := range []string{"node-a", "node-b", "node-c"} {
		c.status(t, readyStatus, "node", node)
	}
	file := filepath.Join(t.TempDir(), "dump.json")
	if got := invoke(t, "", "snapshot", "-f", file, "--kubeconfig", c.Kubeconfig); got.Code != 0 {
		t.Fatalf("%s%s", got.Out, got.Err)
	}
	dump, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(dump), "canary") {
		t.Error("the content of a file is in the dump")
	}
	for _, command := range []string{"status", "verify", "diagnose --offline"} {
		for _, format := range []string{"json", "table"} {
			args := append([]string{"rollout"}, append(strings.Fields(command), "-o", format)...)
			live := invoke(t, "", append(args, "--kubeconfig", c.Kubeconfig)...)
			dumped := invoke(t, "", append(args, "--from", file)...)
			if live.Code != dumped.Code || live.Out != dumped.Out && (format == "json" || command != "status") {
				t.Errorf("%s -o %s: of the cluster, exit code %d\n%s%s\nof the dump, exit code %d\n%s%s", command, format, live.Code, live.Out, live.Err, dumped.Code, dumped.Out, dumped.Err)
			}
			if command == "status" && format == "table" && !strings.Contains(dumped.Out, "other files: /etc/motd") {
				t.Errorf("that a file differs is lost:\n%s", dumped.Out)
			}
		}
	}
	again := filepath.Join(t.TempDir(), "again.json")
	if got := invoke(t, "", "snapshot", "-f", again, "--from", file); got.Code != 0 {
		t.Fatalf("%s%s", got.Out, got.Err)
	}
	if second, err := os.ReadFile(again); err != nil || string(second) != string(dump) {
		t.Errorf("the dump of a dump is another: %v\n%s\n%s", err, dump, second)
	}
}

// mustGather is a rollout in which nothing is held up.
func mustGather() map[string]string {
	return map[string]string{
		"cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigpools/worker.yaml": strings.NewReplacer("machineCount: 3", "machineCount: 2", "unavailableMachineCount: 1", "unavailableMachineCount: 0",
			"configuration: {name: rendered-worker-1}", "configuration: {name: rendered-worker-2}", `[{type: Updating, status: "True"}]`, "[]").Replace(rolloutPool),
		"cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigs/rendered-worker-2.yaml": renderedConfig("rendered-worker-2", confWith, "kernelArguments: []"),
		"cluster-scoped-resources/config.openshift.io/objects.yaml":                                        rolloutObjects,
		"cluster-scoped-resources/core/nodes/node-a.yaml":                                                  rolloutNode("node-a", "rendered-worker-2", "rendered-worker-2", "Done", readyNode),
		"cluster-scoped-resources/core/nodes/node-b.yaml":                                                  rolloutNode("node-b", "rendered-worker-2", "rendered-worker-2", "Done", readyNode),
		"namespaces/shop/core/pods.yaml":                                                                   "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: cart, namespace: shop}\n  spec: {nodeName: node-a, containers: [{name: c, image: x}]}\n  status: {phase: Running}\n",
		"namespaces/shop/policy/poddisruptionbudgets.yaml":                                                 "apiVersion: policy/v1\nkind: PodDisruptionBudgetList\nitems:\n- metadata: {name: cart, namespace: shop}\n  spec: {selector: {matchLabels: {app: cart}}}\n",
		"namespaces/shop/pods/cart/log":                                                                    strings.Repeat("a line of a log\n", 20_000),
	}
}

// gathered returns a must-gather as it is sent.
func gathered(t *testing.T, compressed bool) []byte {
	t.Helper()
	files := mustGather()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, "must-gather/"+name, files[name])
	}
	archive := clitest.Archived(t, parts...)
	if !compressed {
		return []byte(archive)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(archive)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRolloutCutMustGather: one that is cut off anywhere never says that nothing is held up.
func TestRolloutCutMustGather(t *testing.T) {
	for name, compressed := range map[string]bool{"must-gather.tar.gz": true, "must-gather.tar": false} {
		whole := gathered(t, compressed)
		if got := invoke(t, "", "rollout", "diagnose", "--from", clitest.Written(t, name, string(whole))); got.Code != 0 || got.Out != "Nothing is held up.\n" {
			t.Fatalf("%s, whole: exit code %d\n%s%s", name, got.Code, got.Out, got.Err)
		}
		cuts := map[int]bool{len(whole) - 1: true}
		for i := range 20 {
			cuts[i*len(whole)/20] = true
		}
		for at := 512; !compressed && at < len(whole)-1024; at += 512 { // where a tar has no mark of its own
			cuts[at] = true
		}
		for at := range cuts {
			for _, command := range []string{"diagnose", "verify"} {
				got := invoke(t, "", "rollout", command, "--from", clitest.Written(t, name, string(whole[:at])))
				if got.Code != 2 || got.Err == "" {
					t.Errorf("%s, %s, cut at %d of %d: exit code %d\n%s%s", name, command, at, len(whole), got.Code, got.Out, got.Err)
				}
			}
		}
	}
}
