//go:build integration

package rollout

import (
	"context"
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// A realCluster is an API server with OpenShift's kinds.
type realCluster struct{ *cluster.Cluster }

func newCluster(t *testing.T, options ...cluster.Option) realCluster {
	t.Helper()
	return realCluster{cluster.New(t, options...)}
}

const livePools = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {machineconfiguration.openshift.io/mco-built-in: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-2}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  paused: false
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ""}}
`

// TestRolloutOnCluster goes through the commands against a real API server.
func TestRolloutOnCluster(t *testing.T) {
	c := newCluster(t)
	c.Apply(t, livePools)
	c.Apply(t, rolloutNode("node-a", "rendered-worker-1", "rendered-worker-1", "Done", ""))
	c.Apply(t, renderedConfig("rendered-worker-1", confWithout, "kernelArguments: []"))
	c.Apply(t, renderedConfig("rendered-worker-2", confWith, "kernelArguments: []"))
	rollout := func(args ...string) clitest.Outcome {
		return invoke(t, "", append([]string{"rollout"}, append(args, "--kubeconfig", c.Kubeconfig)...)...)
	}
	want := func(got clitest.Outcome, code int, parts ...string) {
		t.Helper()
		if got.Code != code {
			t.Errorf("exit code %d, want %d\n%s%s", got.Code, code, got.Out, got.Err)
		}
		for _, part := range parts {
			if !strings.Contains(got.Out+got.Err, part) {
				t.Errorf("%q is not in\n%s%s", part, got.Out, got.Err)
			}
		}
	}
	paused := func(pool string, is bool) {
		t.Helper()
		got, _, err := unstructured.NestedBool(c.pool(t, pool).Object, "spec", "paused")
		if err != nil || got != is {
			t.Errorf("pool %s: paused is %t, %v, want %t", pool, got, err, is)
		}
	}

	want(rollout("status"), 0, "worker", "registries.conf: quay.io/shop", "a node drains and reloads CRI-O", "node-a")
	before := c.pool(t, "worker")

	want(rollout("pause", "worker", "gpu"), 2, `no pool "gpu": there are infra, worker; nothing was changed`)
	paused("worker", false)
	want(rollout("pause", "worker"), 2, "Pause pool worker:", "no node is given another config", "nothing was changed") // stdin is at its end
	paused("worker", false)
	want(invoke(t, "n\n", "rollout", "pause", "worker", "--kubeconfig", c.Kubeconfig), 2, "nothing was changed")
	paused("worker", false)
	want(invoke(t, "y\n", "rollout", "pause", "worker", "--kubeconfig", c.Kubeconfig), 0, "Paused: worker")
	paused("worker", true)
	want(rollout("pause", "worker", "infra", "--yes"), 0, "Pool worker is paused already: nothing to change.", "Paused: infra")
	paused("infra", true)
	want(rollout("pause", "worker", "--yes"), 0, "Pool worker is paused already: nothing to change.")

	want(rollout("status"), 0, "pool worker is paused since", "by mirrorset-guard", "rendered-worker-2 waits for its nodes already")
	want(rollout("verify"), 1, "mirrorset-guard rollout resume worker")
	want(rollout("resume", "worker", "infra", "--yes"), 0, "rendered-worker-2 waits for 1 node", "a node drains and reloads CRI-O", "Resumed: infra, worker")
	paused("worker", false)
	after := c.pool(t, "worker")
	for _, pool := range []*unstructured.Unstructured{before, after} {
		unstructured.RemoveNestedField(pool.Object, "spec", "paused")
	}
	if was, is := fmt.Sprint(before.Object["spec"]), fmt.Sprint(after.Object["spec"]); was != is {
		t.Errorf("more than spec.paused was changed: %s, before %s", is, was)
	}

	// What somebody else has done meanwhile is not undone.
	if err := c.pauser().One(t.Context(), "worker", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.pauser().One(t.Context(), "worker", nil); err == nil || !strings.Contains(err.Error(), "somebody else has changed it meanwhile") {
		t.Errorf("got %v", err)
	}
	c.rights(t, want)
}

func (c realCluster) pools() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(c.Config).Resource(mcfgv1.GroupVersion.WithResource("machineconfigpools"))
}

func (c realCluster) pauser() rollouts.Pauser { return rollouts.Pauser{Pools: c.pools(), Paused: true} }

func (c realCluster) pool(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	pool, err := c.pools().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// rights goes through the commands as people who may read nothing, some, or all.
func (c realCluster) rights(t *testing.T, want func(clitest.Outcome, int, ...string)) {
	t.Helper()
	as := func(user string, args ...string) clitest.Outcome {
		return invoke(t, "", append([]string{"rollout"}, append(args, "--kubeconfig", c.KubeconfigAs(t, user))...)...)
	}
	want(as("nobody", "status"), 2, "machineconfigpools could not be read", "cluster-reader")
	want(as("nobody", "verify"), 2, "machineconfigpools could not be read")

	read := []string{"get", "list", "watch"}
	c.grant(t, "some", rbacv1.PolicyRule{APIGroups: []string{"machineconfiguration.openshift.io"}, Resources: []string{"machineconfigpools"}, Verbs: read})
	want(as("some", "status"), 0, "worker", "Not known:", "nodes could not be read: which node waits for what is not known")

	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: read}
	c.grant(t, "reader", all)
	want(as("reader", "status"), 0, "registries.conf: quay.io/shop", "node-a")
	want(as("reader", "diagnose"), 1, "pool worker does not get rendered-worker-2", "mirrorset-guard rollout resume worker")
	want(as("reader", "pause", "infra", "--yes"), 2, "forbidden", "nothing was changed")
}

// grant lets a user do what rule says, and returns when the API server knows.
func (c realCluster) grant(t *testing.T, user string, rule rbacv1.PolicyRule) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(c.Config)
	ctx := context.Background()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{rule}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitRights(t.Context(), c.Config, user, "", role.Rules); err != nil {
		t.Fatal(err)
	}
}
