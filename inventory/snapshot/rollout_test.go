package snapshot

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// rolloutInput is a cluster as its API server shows it, with a canary in every place that a
// rollout does not depend on.
//
//go:embed testdata/rollout.yaml
var rolloutInput string

// rolloutOf returns what a rollout goes through by a dump, its pods in order.
func rolloutOf(t *testing.T, dump string) rollout.Cluster {
	t.Helper()
	s, err := ReadFrom(strings.NewReader(dump), "f")
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	c := s.Rollout()
	c.Pods = slices.SortedFunc(slices.Values(c.Pods), func(a, b rollout.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return c
}

// What has been written says the same of a rollout as what it was written from.
func TestWriteAndReadRollout(t *testing.T) {
	before := rolloutOf(t, rolloutInput)
	s, err := ReadFrom(strings.NewReader(rolloutInput), "f")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, s)
	if strings.Contains(strings.ToLower(text), "canary") {
		t.Errorf("the dump holds what nothing depends on:\n%s", text)
	}
	if diff := cmp.Diff(before, rolloutOf(t, text)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	again, err := ReadFrom(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	if second := written(t, again); second != text {
		t.Errorf("written again, it differs: -first +second:\n%s", cmp.Diff(text, second))
	}
	if before.Topology != "HighlyAvailable" || !before.OverrideDrain || before.OperatorNode != "worker-1" || before.Operator.Name != "machine-config" {
		t.Errorf("got topology %q, override %t, operator %v on %q", before.Topology, before.OverrideDrain, before.Operator, before.OperatorNode)
	}
	if len(before.Pods) != 5 || len(before.Namespaces) != 2 || len(before.Volumes) != 2 || len(before.Certificates) != 1 || len(before.Unknown) != 0 {
		t.Errorf("%d pods, namespaces %v, volumes %v, unknown %v", len(before.Pods), before.Namespaces, before.Volumes, before.Unknown)
	}
	if c := before.Controllers; len(c) != 4 || !strings.Contains(c[0].Failure, "quota") || c[0].Name != "web" || c[1].Name != "old" || c[1].Failure != "no" ||
		!c[2].Parallel || c[2].First != 3 || c[3].Parallel || c[3].Name != "db" {
		t.Errorf("controllers %+v", c)
	}
	if q := before.Quotas; len(q) != 1 || q[0].Spec.Hard.Pods().Value() != 2 || q[0].Status.Used.Pods().Value() != 3 {
		t.Errorf("quotas %+v", q)
	}
	if c := before.Pods[3]; c.Failing != "ImagePullBackOff" || !c.Deleted || c.Spec != before.Pods[4].Spec {
		t.Errorf("pod %+v and %+v, want one spec", c, before.Pods[4])
	}
	if b := before.Budgets[0]; b.Generation != 3 || b.Status.ObservedGeneration != 2 {
		t.Errorf("budget %+v", b)
	}
	if p := before.Pools[0]; p.DeletionTimestamp == nil {
		t.Error("the pool is being deleted")
	}
	if n := before.Nodes[0]; len(n.Status.Conditions) != 3 || len(n.Status.Images) != 1 || len(n.Status.Images[0].Names) != 2 || n.Status.Allocatable.Pods().Value() != 250 || n.CreationTimestamp.IsZero() {
		t.Errorf("node %+v", n)
	}
}

// TestUnknown: what a dump lacks is not what a cluster lacks.
func TestUnknown(t *testing.T) {
	const (
		node  = "{apiVersion: v1, kind: Node, metadata: {name: worker}}\n---\n"
		pod   = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: x}]}}\n---\n"
		ended = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, status: {phase: Succeeded}}\n---\n"
		made  = "{apiVersion: v1, kind: PodList, items: [{metadata: {name: db-0, namespace: shop, ownerReferences: [{kind: StatefulSet, name: db, controller: true}]}}, " +
			"{metadata: {name: web, namespace: shop, labels: {pod-template-hash: '1'}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, controller: true}]}}]}\n"
		claim = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: d}}]}}\n---\n"
		runs  = "{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, status: {"
		space = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n"
	)
	const others = "clusteroperators infrastructures machineconfigpools machineconfigurations"
	for _, tt := range []struct{ reason, dump, want string }{
		{"before node disruption policies", node + runs + "desired: {version: 4.15.9}, history: [{state: Completed, version: 4.14.9}]}}", strings.TrimSuffix(others, " machineconfigurations") + " namespaces poddisruptionbudgets pods resourcequotas"},
		{"on the way to them", node + runs + "desired: {version: 4.16.0}, history: [{state: Completed, version: 4.15.9}]}}", others + " namespaces poddisruptionbudgets pods resourcequotas"},
		{"pods alone", pod, others + " namespaces nodes poddisruptionbudgets resourcequotas"},
		{"pods that have ended are pods", ended + space, others + " nodes poddisruptionbudgets resourcequotas"},
		{"a pod with a claim, and no volume", claim + space, others + " nodes persistentvolumes poddisruptionbudgets resourcequotas"},
		{"pods, and some of what makes them", made + "---\n{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}}\n---\n", strings.Replace(others, " ", " deployments ", 1) + " namespaces nodes poddisruptionbudgets replicasets resourcequotas"},
		{"a snapshot from before", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"ImageUsers","image":"x","users":[{"kind":"Pod","name":"p","use":"running"}]}`, others + " namespaces nodes poddisruptionbudgets pods resourcequotas"},
		{"a list of budgets that is empty, as in a must-gather", node + "{apiVersion: policy/v1, kind: PodDisruptionBudgetList, items: []}\n---\n", others + " namespaces pods resourcequotas"},
		{"a list that does not say of what", node + "{apiVersion: v1, kind: List, items: []}\n---\n", others + " namespaces poddisruptionbudgets pods resourcequotas"},
		{"another object of that group", node + "{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: p}}\n---\n", others + " namespaces pods resourcequotas"},
		{"it says that it lacks nothing", node + `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"quotas":true}`, ""},
		{"it says so, and was written before ResourceQuotas were looked for", node + `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[]}`, "resourcequotas"},
		{"an empty list of ResourceQuotas", node + "{apiVersion: v1, kind: ResourceQuotaList, items: []}\n---\n", others + " namespaces poddisruptionbudgets pods"},
		{"it says what it lacks", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":["pods","namespaces"],"quotas":true}`, "namespaces pods"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(strings.Fields(tt.want), append([]string{}, rolloutOf(t, "---\n"+tt.dump).Unknown...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUnreadRollout: what could not be read of a resource makes it unknown.
func TestUnreadRollout(t *testing.T) {
	const complete = "---\n" + `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[],"quotas":true}` + "\n---\n"
	for _, tt := range []struct{ reason, broken, want string }{
		{"a pod of other types", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":7}}`, "pods"},
		{"a set of pods without names", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"PodSet","pods":[{"node":"a"}]}`, "pods"},
		{"a controller without a name", `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"PodController","namespace":"shop"}`, "deployments replicasets replicationcontrollers statefulsets"},
		{"a StatefulSet of other types", `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":7}`, "statefulsets"},
		{"a budget of other types", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p"},"spec":[]}`, "poddisruptionbudgets"},
		{"a volume of other types", `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"p"},"spec":[]}`, "persistentvolumes"},
		{"something", "apiVersion: v1\n\tkind: [", "pods"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(complete+tt.broken), "f")
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Problems()) != 1 {
				t.Errorf("problems %v, want one", s.Problems())
			}
			if diff := cmp.Diff(strings.Fields(tt.want), append([]string{}, s.Rollout().Unknown...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSizeOfPods: 100,000 pods take a few dozen megabytes.
func TestSizeOfPods(t *testing.T) {
	const owners, each = 50, 20
	var dump strings.Builder
	dump.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range owners * each {
		fmt.Fprintf(&dump, `- apiVersion: v1
  kind: Pod
  metadata: {name: application-%[1]d-6d8f7c9b5d-x%04[2]d, namespace: team-%[1]d, creationTimestamp: "2026-02-01T00:00:00Z", labels: {app: application-%[1]d, pod-template-hash: 6d8f7c9b5d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: application-%[1]d-6d8f7c9b5d, uid: "1", controller: true}]}
  spec: {nodeName: worker-%[2]d.cluster.example.com, containers: [{name: application, image: "registry.example.com/team/application-%[1]d:1.2.3"}], tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]}
  status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`, i/each, i)
	}
	s, err := ReadFrom(strings.NewReader(dump.String()), "f")
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	size := 0
	for line := range strings.Lines(written(t, s)) {
		if strings.Contains(line, `"kind":"PodSet"`) {
			size += len(line)
		}
	}
	perPod := size / (owners * each)
	t.Logf("%d bytes a pod", perPod)
	if perPod == 0 || perPod > 250 {
		t.Errorf("%d bytes a pod, which makes %d MB of 100,000", perPod, perPod/10)
	}
}
