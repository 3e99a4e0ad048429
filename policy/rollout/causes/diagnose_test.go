package causes

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

func input(pool *mcfgv1.MachineConfigPool, nodes ...*corev1.Node) status.Input {
	return status.Input{Cluster: pools.Cluster(pool, nodes...), Rendered: pools.Configs()}
}

// cart makes a pod of deployment cart, which runs and is ready, changed by words: "failing=
// ErrImagePull", "unready", "pending", "deleted", "of=DaemonSet".
func cart(name, on string, words ...string) rollout.Pod {
	spec := &rollout.PodSpec{Labels: map[string]string{"app": "cart"}, Containers: []rollout.Container{{Name: "c", Image: "quay.io/shop/cart:v1"}}}
	p := rollout.Pod{Namespace: "shop", Name: name, Node: on, Spec: spec, Started: true, Ready: true, Owner: rollout.Owner{Kind: "ReplicaSet", Name: "cart-1"}}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "failing":
			p.Failing, p.FailingContainer, p.Ready, p.Started = value, "c", false, false
		case "unready":
			p.Ready = false
		case "pending":
			p.Ready, p.Started = false, false
		case "deleted":
			p.Deleted = true
		case "of":
			p.Owner.Kind = value
		}
	}
	return p
}

// asked returns the mirror objects that the targets of in were rendered from: none for "1".
func asked(in status.Input) mirrors.Set {
	if in.Cluster.Pools[0].Spec.Configuration.Name != "2" {
		return mirrors.Set{}
	}
	set := pools.TagSet("")
	for path, contents := range in.Rendered["2"].Files {
		if policyfile.IsPolicyFile(path) { // which a MachineConfig brings
			set.Files = append(set.Files, mirrors.File{MachineConfig: "50-signatures", Role: "worker", Path: path, Contents: contents})
		}
	}
	return set
}

// cartBudget makes a budget of cart by its status.
func cartBudget(name string, allowed, healthy, desired int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
	b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: 2}
	return b
}

func TestDiagnose(t *testing.T) {
	draining := pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1")
	updated := pools.Node("b", "has=2", "wants=2")
	full := cartBudget("cart", 0, 1, 1)
	with := func(pool *mcfgv1.MachineConfigPool, nodes []*corev1.Node, pods []rollout.Pod, budgets ...*policyv1.PodDisruptionBudget) status.Input {
		in := input(pool, nodes...)
		in.Cluster.Pods, in.Cluster.Budgets = pods, budgets
		return in
	}
	both := []*corev1.Node{draining, updated}
	rejected := pools.TagSet(configv1.NeverContactSource)
	other := rejected.Objects[0].(*configv1.ImageTagMirrorSet).DeepCopy()
	other.Name, other.Spec.ImageTagMirrors[0].MirrorSourcePolicy = "other", configv1.AllowContactingSource
	for _, tt := range []struct {
		reason string
		in     status.Input
		chain  []string // of the only hold-up, none for no hold-up
		first  string   // its first remedy
	}{
		{"nothing is held up", with(pools.Worker("2"), []*corev1.Node{updated}, nil), nil, ""},
		{"a drain goes on", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a")}, cartBudget("cart", 1, 2, 1)), nil, ""},
		{"the deadlock", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a"), cart("2", "b", "failing=ImagePullBackOff")}, full), []string{
			"node a is being drained",
			"pod shop/1 is not evicted: budget cart allows no disruption: 1 of 2 pods are healthy, and 1 must be",
			"pod shop/2 on b cannot pull quay.io/shop/cart:v1: ImagePullBackOff",
			"node b looks for it at mirror.example.com/shop/cart:v1, then quay.io/shop/cart:v1",
		}, copyOf("quay.io/shop/cart:v1", "mirror.example.com/shop/cart:v1")},
		{"a replacement that is on no node", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a"), cart("2", "", "pending")}, full), []string{
			"node a is being drained",
			"pod shop/1 is not evicted: budget cart allows no disruption: 1 of 2 pods are healthy, and 1 must be",
			"pod shop/2 is on no node: the scheduler has not placed it",
		}, "oc -n shop describe pod 2"},
		{"a replacement that crashes", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a"), cart("2", "b", "failing=CrashLoopBackOff")}, full), []string{
			"node a is being drained",
			"pod shop/1 is not evicted: budget cart allows no disruption: 1 of 2 pods are healthy, and 1 must be",
			"pod shop/2 on b does not start: CrashLoopBackOff",
		}, "oc -n shop logs 2 -c c --previous"},
		{"a budget without room", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a"), cart("2", "b")}, cartBudget("cart", 0, 2, 2)), []string{
			"node a is being drained",
			"pod shop/1 is not evicted: budget cart allows no disruption: 2 of 2 pods are healthy, and 2 must be",
			"all pods that count for the budget are healthy: it leaves no room for a drain",
		}, "oc -n shop get pdb cart -o yaml"},
		{"pods that a drain leaves, and one that has not started", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a", "of=DaemonSet"), cart("2", "a", "pending")}, full), nil, ""},
		{"a pod that is not ready, of a budget that others fill", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a", "unready")}, full), nil, ""},
		{"a pod that does not end", with(pools.Worker("2"), both, []rollout.Pod{cart("1", "a", "deleted")}, full), []string{
			"node a is being drained", "pods are being deleted and have not ended: shop/1",
		}, "oc describe node a"},
		{"a node that gave up", with(pools.Worker("2"), []*corev1.Node{pools.Node("a", "wants=2", "state=Degraded", "reason=disk is full")}, nil), []string{"node a is degraded", "disk is full"}, daemonPod("a").Command},
		{"a file changed by hand", with(pools.Worker("2"), []*corev1.Node{pools.Node("a", "has=2", "wants=2", `state=Degraded`, `reason=content mismatch for file "/etc/x"`)}, nil), []string{
			"node a is degraded", `content mismatch for file "/etc/x"`, "a file on the node is not what its rendered config says: something other than MCO has changed it",
			"rendered config 2 has no file /etc/x",
		}, daemonPod("a").Command},
		{"no daemon", with(pools.Worker("1"), []*corev1.Node{pools.Node("a", "new")}, nil), []string{
			"node a has not been reported on", "its machine-config-daemon has written none of its annotations, or not all",
		}, daemonPod("a").Command},
		{"paused", with(pools.Worker("2", "paused"), []*corev1.Node{pools.Node("a")}, nil), []string{"pool worker does not get 2", "pool worker is paused; since when is not recorded"}, "mirrorset-guard rollout resume worker"},
		{"cordoned by a person", with(pools.Worker("2"), []*corev1.Node{pools.Node("a", "cordoned", "by=kubectl-cordon"), pools.Node("b")}, nil), []string{
			"no node of pool worker is taken", "node a is cordoned, and maxUnavailable is 1", "node a is cordoned since 2026-03-01 12:00 UTC by kubectl-cordon",
		}, "oc adm uncordon a"},
		{"MCO renders nothing", with(pools.Worker("1", "norender=bad file"), []*corev1.Node{pools.Node("a")}, nil), []string{"MCO renders no config for pool worker", "bad file"}, "mirrorset-guard render"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := Diagnose(tt.in, asked(tt.in))
			if len(tt.chain) == 0 {
				if len(d.HoldUps) > 0 {
					t.Errorf("got %+v, want nothing", d.HoldUps)
				}
				return
			}
			if len(d.HoldUps) != 1 {
				t.Fatalf("got %+v, want one", d.HoldUps)
			}
			f := d.HoldUps[0]
			if got, want := strings.Join(f.Chain.Lines(), "\n"), strings.Join(tt.chain, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if f.Remedies[0].Command != tt.first {
				t.Errorf("first remedy: got %q, want %q", f.Remedies[0].Command, tt.first)
			}
			if slices.ContainsFunc(commands(f), func(c string) bool { return strings.Contains(c, "patch machineconfigpool") }) {
				t.Errorf("a pool would stay changed: %q", commands(f))
			}
		})
	}
	d := Diagnose(with(pools.Worker("1"), nil, nil), mirrors.Put(other).Apply(rejected))
	if len(d.HoldUps) != 1 || !strings.HasPrefix(d.HoldUps[0].Chain.Links[0], "it rejects the mirror objects: ") {
		t.Errorf("objects that MCO rejects: got %+v", d.HoldUps)
	}
}

// TestOneBudgetFewer: of several budgets that cover a pod, the one is to go without which no other pod is left without any.
func TestOneBudgetFewer(t *testing.T) {
	of := []map[string]string{{}, {"x": ""}, {"y": ""}, {"x": "", "y": ""}}
	for second, first := range map[[2]int]string{{0, 0}: "pdb y", {3, 3}: "pdb y", {1, 0}: "pdb y", {2, 3}: "pdb x", {0, 2}: "pdb x", {1, 2}: "pod 1"} {
		in := deadlock(nil)
		in.Cluster.Budgets, in.Cluster.Pods = nil, append(in.Cluster.Pods, cart("3", "b"))
		for _, name := range []string{"x", "y"} {
			b := cartBudget(name, 1, 2, 1)
			b.Spec.Selector.MatchLabels = map[string]string{name: ""}
			in.Cluster.Budgets = append(in.Cluster.Budgets, b)
		}
		for i, labels := range []int{3, second[0], second[1]} {
			in.Cluster.Pods[i].Spec = &rollout.PodSpec{Labels: of[labels]}
		}
		if got := commands(Diagnose(in, asked(in)).HoldUps[0]); got[0] != "oc -n shop delete "+first {
			t.Errorf("pods with %v and %v: got %q, want %s", of[second[0]], of[second[1]], got, first)
		}
	}
}

// TestArg: what a stranger writes into a dump is no command.
func TestArg(t *testing.T) {
	for name, want := range map[string]string{
		"node-a.example.com": "node-a.example.com", "quay.io/a/b@sha256:1": "quay.io/a/b@sha256:1", "a b": "'a b'", "$(x)": "'$(x)'", "it's": `'it'\''s'`, "-x": "'-x'", "": "''",
		"a\nb": "'a b'",
	} {
		if got := text.Argument(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

// TestDiagnoseDegraded: a pool that is degraded for a reason that no node shows is not said to
// be well.
func TestDiagnoseDegraded(t *testing.T) {
	for message, want := range map[string]string{
		"Node a is reporting: content mismatch": "Node a is reporting: content mismatch",
		"":                                      "it does not say why",
	} {
		pool := pools.Worker("1")
		pool.Status.Conditions = append(pool.Status.Conditions, mcfgv1.MachineConfigPoolCondition{Type: mcfgv1.MachineConfigPoolDegraded, Status: corev1.ConditionTrue, Message: message})
		d := Diagnose(input(pool, pools.Node("a")), mirrors.Set{})
		if len(d.HoldUps) != 1 || !d.HoldUps[0].Unexplained || strings.Join(d.HoldUps[0].Chain.Lines(), ": ") != "pool worker is degraded: "+want {
			t.Errorf("got %+v, want %s", d.HoldUps, want)
		}
	}
}
