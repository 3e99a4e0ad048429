package simulation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestHealthyUse: workers whose requests take 60 %, three replicas each, of which one may be
// missing, and pools that take 10 % of their nodes at once.
func TestHealthyUse(t *testing.T) {
	for _, nodes := range []int{3, 6, 20, 100} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			c := rollout.Cluster{}
			c.Pools = append(c.Pools, makePool("worker max=10%"))
			for i := range nodes {
				c.Nodes = append(c.Nodes, makeNode(i, fmt.Sprintf("w%d worker zone=%c cpu=8 memory=32", i, 'a'+i%3)))
			}
			for d := range nodes * 4 { // three pods of 0.4 cores on 8 cores for each node and four deployments
				app := fmt.Sprintf("web%d", d)
				at := make([]string, 3)
				for r := range at {
					at[r] = fmt.Sprintf("w%d", (d+r)%nodes)
				}
				c.Pods = append(c.Pods, makePods("ReplicaSet", app+" image=works cpu=400m memory=1", at...)...)
				c.Budgets = append(c.Budgets, makeBudget(fmt.Sprintf("%s app=%s max=1", app, app)))
			}
			if got := Run(inputFor(c)); !got.Finishes() {
				t.Errorf("%d stalls: %s", len(got.Stalls), said(got))
			}
		})
	}
}

// TestGuards: what the operators of the control plane put beside etcd and the API servers: bare
// pods, each on its master, of which one may be missing.
func TestGuards(t *testing.T) {
	in := scene("pool master\nnode m0 master taint=master\nnode m1 master taint=master\nnode m2 master taint=master").cluster(t)
	spec := makeSpec("guard image=installer-new-fails tolerates=*")
	for i := range 3 {
		name := fmt.Sprintf("m%d", i)
		in.Pods = append(in.Pods, rollout.Pod{Namespace: "openshift-etcd", Name: "etcd-guard-" + name, Node: name, Spec: spec, Started: true, Ready: true})
	}
	least := intstr.FromInt32(2)
	in.Budgets = []*policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: "etcd-guard-pdb"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guard"}}},
	}}
	if got := Run(inputFor(in)); !got.Finishes() || len(got.Obstacles) > 0 {
		t.Errorf("%s\n%s\nobstacles: %s", said(got), lines(got.Steps), lines(got.Obstacles))
	}
	in.Nodes[1].Labels[corev1.LabelOSStable] = "windows" // not in the pool any more
	if got := Run(inputFor(in)); !got.Finishes() {
		t.Errorf("with a node outside the pool: %s", said(got))
	}
	for i := range in.Pods {
		in.Pods[i].Namespace, in.Budgets[0].Namespace = "shop", "shop"
	}
	if got := Run(inputFor(in)); got.Finishes() {
		t.Error("a tenant's bare pods pass for guards")
	}
}
