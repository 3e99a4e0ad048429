package simulation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestHealthy: clusters as they are everywhere, in which no choice of the scheduler stalls a
// rollout whose images can be pulled.
func TestHealthy(t *testing.T) {
	workers := func(n int, words string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "node w%d worker zone=%c %s\n", i, 'a'+i%3, words)
		}
		return b.String()
	}
	const masters = "pool master\nnode m0 master taint=master\nnode m1 master taint=master\nnode m2 master taint=master\n"
	for _, tt := range []struct {
		name  string
		scene string
	}{
		{"routers with ports on the host and a node to spare", "pool worker\n" + workers(3, "") + `
			ReplicaSet w0,w1 router port=80 port=443 apart image=router
			budget router app=router max=1`},
		{"routers on as many nodes as there are replicas, which hold their image", "pool infra\n" + `
			node i0 infra taint=infra
			node i1 infra taint=infra
			node i2 infra taint=infra
			ReplicaSet i0,i1,i2 router port=80 apart image=router-new-fails tolerates=infra on=node-role.kubernetes.io/infra:
			budget router app=router max=1`},
		{"API servers on all masters", masters + `
			ReplicaSet m0,m1,m2 apiserver apart image=works tolerates=master on=node-role.kubernetes.io/master: priority=9
			ReplicaSet m0,m1,m2 oauth apart image=works tolerates=master on=node-role.kubernetes.io/master: priority=9
			budget apiserver app=apiserver max=1
			budget oauth app=oauth max=1`},
		{"a compact cluster", `
			pool master
			node m0 master
			node m1 master
			node m2 master
			ReplicaSet m0,m1 router port=80 port=443 image=works priority=9 cpu=200m
			ReplicaSet m0,m1,m2 api apart image=works cpu=500m priority=9
			ReplicaSet m0,m1 web cpu=500m
			budget router app=router max=1
			budget api app=api max=1
			budget web app=web min=1`},
		{"a budget in per cent", "pool worker max=10%\n" + workers(20, "") + `
			ReplicaSet w0,w1,w2,w3 web cpu=1 image=works
			budget web app=web max=25%`},
		{"what cannot be pulled is held by all nodes that it can run on", "pool worker\n" + workers(3, "images=web-fails label=disk:ssd") + `
			ReplicaSet w0,w1,w2 web image=web-fails on=disk:ssd
			budget web app=web max=1`},
		{"a pod that cannot start, which no budget is about", "pool worker\n" + workers(3, "") + `
			ReplicaSet w0,w1 web image=new-fails
			ReplicaSet w0,w1,w2 other image=works
			budget other app=other max=1`},
		{"a single replica that may be missing", "pool worker\n" + workers(3, "") + `
			ReplicaSet w0 web image=new-fails
			budget web app=web max=1`},
		{"routers that push out what is less important", "pool worker\n" + workers(3, "") + `
			ReplicaSet w0,w1 router cpu=3 image=works priority=9
			ReplicaSet w0,w0,w1,w1,w2,w2,w2,w2 batch cpu=2
			budget router app=router max=1`},
		{"a budget over pods of a DaemonSet", "pool worker\n" + workers(3, "") + `
			DaemonSet w0,w1,w2 agent image=new-fails
			budget agent app=agent max=0`},
		{"a budget on nodes of a paused pool", "pool gpu paused\nnode g0 gpu\npool worker\n" + workers(2, "") + `
			ReplicaSet g0 train image=new-fails
			budget train app=train max=0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Run(scene(tt.scene).input(t))
			if !got.Finishes() {
				t.Errorf("%s\n%s", lines(got.Worst.Stalls), lines(got.Worst.Steps))
			}
			if len(got.Best.Stalls) > 0 || got.Best.Undecided {
				t.Errorf("at best: %s", got.Best)
			}
		})
	}
}

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
				t.Errorf("%d stalls: %s", len(got.Worst.Stalls), got.Worst)
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
	got := Run(inputFor(in))
	if !got.Finishes() {
		t.Errorf("%s\n%s", got.Worst, lines(got.Worst.Steps))
	}
	if len(got.Obstacles) > 0 {
		t.Errorf("obstacles: %s", lines(got.Obstacles))
	}
	in.Nodes[1].Labels[corev1.LabelOSStable] = "windows" // not in the pool any more
	if got := Run(inputFor(in)); !got.Finishes() {
		t.Errorf("with a node outside the pool: %s", got.Worst)
	}
}

// TestCrowded: pods have to go to nodes of a paused pool, on which only two of them fit. That
// the last one is refused on a node of its own leaves none of the two free.
func TestCrowded(t *testing.T) {
	in := scene(`
		pool worker
		pool infra paused
		node w1 worker
		node w2 worker
		node w3 worker
		node w4 worker
		node i1 infra label=kind:infra
		node i2 infra label=kind:infra
		ReplicaSet w1,w2,w3,w4 web apart on=kind:infra image=works
		budget web app=web max=1`).input(t)
	if some, _, _, ok := newModel(in).explore(100000); !ok || !some {
		t.Fatalf("a course stalls: %t, explored: %t", some, ok)
	}
	if got := Run(in); len(got.Worst.Stalls) == 0 {
		t.Errorf("no stall\n%s", lines(got.Worst.Steps))
	}
	w := newCluster(in)
	if found := w.blockedBudgets(assumption{im: w.images}); len(found) != 1 {
		t.Errorf("verdicts: %+v", found)
	}
}
