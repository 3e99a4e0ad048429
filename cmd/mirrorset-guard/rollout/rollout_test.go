package rollout

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// The files of the rendered configs in the dumps: without mirrors, and with those of
// rolloutObjects.
const (
	confWithout = "unqualified-search-registries = ['registry.access.redhat.com', 'docker.io']\n"
	confWith    = confWithout + "[[registry]]\nlocation = \"quay.io/shop\"\n[[registry.mirror]]\nlocation = \"mirror.example.com/shop\"\npull-from-mirror = \"tag-only\"\n"
)

// renderedConfig returns a MachineConfig as MCO renders it.
func renderedConfig(name, conf, system string) string {
	return fmt.Sprintf(`---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: %s}
spec:
  %s
  config:
    ignition: {version: 3.4.0}
    storage: {files: [{path: /etc/containers/registries.conf, contents: {source: "data:;base64,%s"}}]}
`, name, system, base64.StdEncoding.EncodeToString([]byte(conf)))
}

// rolloutNode returns a worker that is between two rendered configs.
func rolloutNode(name, has, wants, state, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata:
  name: %s
  labels: {node-role.kubernetes.io/worker: ""}
  annotations:
    machineconfiguration.openshift.io/currentConfig: %s
    machineconfiguration.openshift.io/desiredConfig: %s
    machineconfiguration.openshift.io/state: %s
%s
`, name, has, wants, state, more)
}

const (
	drainingNode = `    machineconfiguration.openshift.io/desiredDrain: drain-rendered-worker-2
    machineconfiguration.openshift.io/lastAppliedDrain: uncordon-rendered-worker-1
  managedFields:
  - {manager: machine-config-controller, operation: Update, apiVersion: v1, time: "2026-03-01T02:10:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:unschedulable": {}}}}
spec: {unschedulable: true}
status: {conditions: [{type: Ready, status: "True"}]}`
	readyNode = `status: {conditions: [{type: Ready, status: "True"}]}`

	rolloutPool = `---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
  labels: {machineconfiguration.openshift.io/mco-built-in: ""}
spec:
  paused: false
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-2}
status:
  configuration: {name: rendered-worker-1}
  machineCount: 3
  updatedMachineCount: 1
  readyMachineCount: 1
  unavailableMachineCount: 1
  degradedMachineCount: 0
  conditions: [{type: Updating, status: "True"}]
`
	rolloutObjects = `---
apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: machine-config}
status:
  conditions:
  - {type: Available, status: "True", reason: AsExpected, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Progressing, status: "True", reason: Rolling, message: Working towards it, lastTransitionTime: "2026-03-01T02:00:00Z"}
---
apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
status: {controlPlaneTopology: HighlyAvailable}
---
{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}}
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec:
  imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]
`
	failingPod = `---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
spec: {nodeName: node-a, containers: [{name: c, image: "quay.io/shop/cart:v1"}]}
status:
  phase: Pending
  containerStatuses: [{name: c, ready: false, restartCount: 0, image: "", imageID: "", state: {waiting: {reason: ImagePullBackOff}}}]
`
)

// rolloutDump is a cluster in the middle of a rollout.
var rolloutDump = rolloutPool + rolloutObjects + failingPod +
	renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []") + renderedConfig("rendered-worker-2", confWith, "kernelArguments: [nosmt]") +
	rolloutNode("node-a", "rendered-worker-2", "rendered-worker-2", "Done", readyNode) +
	rolloutNode("node-b", "rendered-worker-1", "rendered-worker-2", "Working", drainingNode) +
	rolloutNode("node-c", "rendered-worker-1", "rendered-worker-1", "Done", readyNode)

// TestRolloutTables: the second is what the first comes to.
func TestRolloutTables(t *testing.T) {
	dump, same := clitest.Written(t, "dump.yaml", rolloutDump), golden.Archive(t, "testdata/rollout.txtar")
	for _, args := range []string{"rollout", "rollout status", "rollout verify", "rollout diagnose"} {
		same(t, args, invoke(t, "", append(strings.Fields(args), "--from", dump)...).String())
	}
}

// TestRolloutDocuments: documents are printed as JSON and YAML. TestDocumentsLackNothing of package rollouts shows what they have.
func TestRolloutDocuments(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", rolloutDump)
	for args, want := range map[string]string{
		"rollout -o json": `"state": "is being drained"`, "rollout -o yaml": "state: is being drained\n", "rollout verify -o json": `"result": "not well"`,
	} {
		if got := invoke(t, "", append(strings.Fields(args), "--from", dump)...); !strings.Contains(got.Out, want) {
			t.Errorf("%s: no %s in\n%s%s", args, want, got.Out, got.Err)
		}
	}
}

// TestRolloutVerifyWell: the exit code is 0 if all is well, and only then. When it is not is shown by the tests of package status.
func TestRolloutVerifyWell(t *testing.T) {
	done := rolloutNode("node-a", "rendered-worker-2", "rendered-worker-2", "Done", readyNode)
	pool := strings.NewReplacer("configuration: {name: rendered-worker-1}", "configuration: {name: rendered-worker-2}",
		"machineCount: 3", "machineCount: 1", `conditions: [{type: Updating, status: "True"}]`, "conditions: []").Replace(rolloutPool)
	const (
		running = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop}\nspec: {nodeName: node-a, containers: [{name: c, image: x}]}\nstatus: {phase: Running}\n"
		budgets = "---\napiVersion: policy/v1\nkind: PodDisruptionBudgetList\nitems: []\n"
		cas     = "---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: cas}}\n"
		half    = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: [\n"
	)
	config := renderedConfig("rendered-worker-2", confWith, "kernelArguments: []")
	well := pool + rolloutObjects + running + config + done + budgets
	for _, tt := range []struct {
		reason, command, dump string
		code                  int
		want                  string // on one of the streams
	}{
		{"all is well", "verify", well, 0, "\nAll is well.\n"},
		{"which CAs nodes trust is not compared", "verify", well + cas, 0, "\nAll is well, apart from what was not compared.\n"},
		{"an image cannot be pulled", "verify", strings.Replace(well, running, failingPod, 1), 1, "1. mirror.example.com/shop/cart:v1"},
		{"no rendered configs", "verify", strings.Replace(well, config, "", 1), 2, "the dump has no MachineConfig"},
		{"one that cannot be read", "verify", strings.Replace(well, "base64,", "base64,!", 1), 2, "illegal base64"},
		{"the dump ends in the middle", "verify", well + half, 2, "dump.yaml: document 10: yaml: line 4: did not find"},
		{"nothing is held up", "diagnose", well, 0, "Nothing is held up.\n"},
		{"the dump ends in the middle", "diagnose", well + half, 2, "dump.yaml: document 10: yaml: line 4: did not find"},
	} {
		got := invoke(t, "", "rollout", tt.command, "--from", clitest.Written(t, "dump.yaml", tt.dump))
		if got.Code != tt.code || !strings.Contains(got.Out+got.Err, tt.want) {
			t.Errorf("%s, %s: exit code %d, want %d and %q\n%s%s", tt.command, tt.reason, got.Code, tt.code, tt.want, got.Out, got.Err)
		}
	}
}

// TestRolloutDiagnose: the seed's story, with the route of the node and the commands.
func TestRolloutDiagnose(t *testing.T) {
	const running = `---
apiVersion: v1
kind: Pod
metadata: {name: cart-2, namespace: shop, labels: {app: cart}}
spec: {nodeName: node-b, containers: [{name: c, image: "quay.io/shop/cart:v1"}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: cart}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 2}
`
	failing := strings.Replace(failingPod, "namespace: shop}", "namespace: shop, labels: {app: cart}}", 1)
	dump := strings.Replace(rolloutDump, failingPod, failing+running, 1)
	got := invoke(t, "", "rollout", "diagnose", "--from", clitest.Written(t, "dump.yaml", dump))
	golden.File(t, "testdata/diagnosis.txt", got.String())
	var d v1alpha1.Diagnosis
	if err := json.Unmarshal([]byte(invoke(t, "", "rollout", "diagnose", "-o", "json", "--from", clitest.Written(t, "dump.yaml", dump)).Out), &d); err != nil || len(d.Findings) != 1 || len(d.Findings[0].Remedies) != 4 {
		t.Errorf("got %+v, %v", d, err)
	}
}

// TestRolloutPages: status and diagnosis as pages, with the exit codes that they have otherwise.
func TestRolloutPages(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", rolloutDump)
	for command, want := range map[string]string{"status": "<h3", "diagnose": "<h1>Nothing that could be read is held up.</h1>"} {
		table := invoke(t, "", "rollout", command, "--from", dump)
		page := invoke(t, "", "rollout", command, "--from", dump, "-o", "html")
		if page.Code != table.Code || !strings.HasPrefix(page.Out, "<!DOCTYPE html>") || !strings.Contains(page.Out, want) {
			t.Errorf("%s: exit code %d, with a table %d; %q or the page is not there\n%s", command, page.Code, table.Code, want, page.Err)
		}
	}
}

func TestRolloutBadInput(t *testing.T) {
	node := rolloutNode("node-a", "rendered-worker-1", "rendered-worker-1", "Done", readyNode)
	for _, tt := range []struct{ reason, dump, want string }{
		{"a hosted cluster", rolloutPool + strings.Replace(rolloutObjects, "HighlyAvailable", "External", 1) + node, "HyperShift"},
		{"a dump without pools", node, "machineconfigpools could not be read"},
		{"a dump that lacks them because the cluster does", node + "---\napiVersion: mirrorset-guard.io/v1alpha1\nkind: Lacking\nresources: []\n", "has no MachineConfigPools"},
		{"no objects", "a: b\n", "no Kubernetes objects"},
	} {
		for _, command := range []string{"status", "verify"} {
			got := invoke(t, "", "rollout", command, "--from", clitest.Written(t, "dump.yaml", tt.dump))
			if got.Code != 2 || !strings.Contains(got.Err, tt.want) || got.Out != "" {
				t.Errorf("%s, %s: exit code %d\n%s%s\nwant %q", tt.reason, command, got.Code, got.Out, got.Err, tt.want)
			}
		}
	}
	for args, want := range map[string]string{
		"rollout pause":                           "which pools? mirrorset-guard rollout pause POOL...; mirrorset-guard rollout status lists them",
		"rollout pause worker --from dump.yaml":   "unknown flag: --from",
		"rollout status worker":                   `mirrorset-guard rollout status takes no arguments, but got "worker"`,
		"rollout stauts":                          `mirrorset-guard rollout has no command "stauts"; did you mean status?`,
		"rollout nodes":                           `mirrorset-guard rollout has no command "nodes": there are diagnose, pause, resume, status, verify, watch`,
		"rollout diagnose --timeout 0s":           "--timeout 0s: want more than 0; --offline asks nothing",
		"rollout -o xml --from dump.yaml":         "choose one of table, json, yaml, html",
		"rollout resume worker --kubeconfig none": "no cluster",
	} {
		if got := invoke(t, "", strings.Fields(args)...); got.Code != 2 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: exit code %d, %q, want 2, %q", args, got.Code, got.Err, want)
		}
	}
}

// TestRolloutHostileDump: whatever stands in annotations, names and messages does nothing to
// a terminal.
func TestRolloutHostileDump(t *testing.T) {
	const words = `x\u001b[2J\u009b31m\u202e\r\nFORGED`
	dump := rolloutDump
	for _, harmless := range []string{"Working towards it", "rendered-worker-1", "machine-config-controller", "node-b", "nosmt"} {
		dump = strings.ReplaceAll(dump, harmless, `"`+words+`"`)
	}
	dump = strings.ReplaceAll(dump, `drain-rendered-worker-2`, `"`+words+`"`)
	dump = strings.ReplaceAll(dump, `uncordon-"`+words+`"`, `"`+words+`"`)
	file := clitest.Written(t, "dump.yaml", dump)
	for _, args := range []string{"status", "status -o json", "status -o yaml", "verify", "verify -o json", "verify -o yaml", "diagnose", "diagnose -o json"} {
		got := invoke(t, "", append(append([]string{"rollout"}, strings.Fields(args)...), "--from", file)...)
		if strings.Contains(got.Out, "\nFORGED") || strings.ContainsFunc(got.Out+got.Err, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: a stranger's words are not made harmless:\n%q%q", args, got.Out, got.Err)
		}
		if got.Out == "" {
			t.Errorf("%s says nothing: %s", args, got.Err)
		}
	}
}

func TestAsked(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes \r\n": true, "y": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var out strings.Builder
		err := asked(cli.Streams{In: strings.NewReader(answer), Out: &out}, "Pause")
		if (err == nil) != want || out.String() != "Pause? [y/N] " {
			t.Errorf("%q: got %v, %q", answer, err, out.String())
		}
	}
}

// TestNoTerminal: nothing is changed because of what happens to come from a pipe.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // nothing was written
	if _, err := w.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	o := pauseOptions{pause: true}
	if err := o.confirm(cli.Streams{In: r}); err == nil || !strings.Contains(err.Error(), "confirm with --yes") {
		t.Errorf("got %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close() //nolint:errcheck // it was only read
	if err := o.confirm(cli.Streams{In: null, Out: &strings.Builder{}}); err == nil || !strings.Contains(err.Error(), "confirm with --yes") {
		t.Errorf("got %v", err)
	}
	o.yes = true
	if err := o.confirm(cli.Streams{In: r}); err != nil {
		t.Errorf("--yes: got %v", err)
	}
}
