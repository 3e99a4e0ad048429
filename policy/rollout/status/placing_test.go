package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// homeless is the deadlock of Deployment cart where its second pod is on no node, changed. Of three nodes
// a is being drained and b is updated; on c is pod other/big. Each has 4 CPUs.
func homeless(change func(in *Input, waits, big *rollout.Pod)) Input {
	in := deadlock(nil, "pending")
	in.Now = noon.Add(time.Hour)
	in.Cluster.Nodes[0] = node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1", "cordoned", "by=machine-config-controller")
	in.Cluster.Nodes = append(in.Cluster.Nodes, node("c", "has=2", "wants=2"))
	in.Cluster.Pools[0].Status.MachineCount = 3
	for _, n := range in.Cluster.Nodes {
		n.Labels[corev1.LabelHostname], n.Labels[corev1.LabelTopologyZone] = n.Name, "zone-"+n.Name
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	}
	in.Cluster.Pods = append(in.Cluster.Pods, cart("big", "c"))
	byDeployment(&in)
	in.Cluster.Pods[1].Node, in.Cluster.Pods[1].Created = "", noon.Add(-time.Hour)
	big := &in.Cluster.Pods[2]
	big.Namespace, big.Owner = "other", rollout.Owner{Kind: "ReplicaSet", Name: "big-1"}
	change(&in, &in.Cluster.Pods[1], big)
	return in
}

// asking lets a pod ask for CPUs.
func asking(p *rollout.Pod, cpus string) {
	spec := *p.Spec
	spec.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	p.Spec = &spec
}

// TestNotPlaced: of a pod that waits for a node it is said who has the place, and that only the node is
// left that is being drained; the budget is the first thing to give way.
func TestNotPlaced(t *testing.T) {
	const (
		onlyDrained = "it fits only on a, which is being drained, and the drain waits for the budget that waits for it"
		budget      = `oc -n shop patch pdb cart --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":`
	)
	ofCart := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
	terms := []corev1.PodAffinityTerm{{LabelSelector: ofCart, TopologyKey: corev1.LabelHostname}}
	fourMore := func(in *Input) { // pods of cart on b and c, all healthy, of which 3 must be
		for _, on := range []string{"b", "c"} {
			p := cart("on-"+on, on)
			reviseTo(&p, "5d")
			in.Cluster.Pods = append(in.Cluster.Pods, p)
		}
		in.Cluster.Budgets[0] = cartBudget("cart", 0, 3, 3)
		in.Cluster.Budgets[0].Status.ExpectedPods = 4
	}
	for _, tt := range []struct {
		reason string
		in     Input
		links  []string
		first  string // of the remedies that change something
		undo   bool
	}{
		{"anti-affinity", homeless(func(in *Input, waits, _ *rollout.Pod) {
			fourMore(in)
			in.Cluster.Pods[1].Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}), []string{"on node b it may not be beside pod shop/on-b (anti-affinity by kubernetes.io/hostname)", onlyDrained}, budget + "2", false},
		{"no CPU", homeless(func(in *Input, waits, big *rollout.Pod) {
			asking(waits, "2")
			asking(big, "3")
			in.Cluster.Nodes[1].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
		}), []string{"on node b it asks for 2 of cpu, and 1 of 1 is left", "on node c it asks for 2 of cpu, and 1 of 4 is left; pod other/big holds 3", onlyDrained}, budget + "0", false},
		{"a pod that does not end", homeless(func(in *Input, waits, big *rollout.Pod) {
			asking(waits, "2")
			asking(big, "3")
			big.Deleted, big.Ends, big.Finalizers = true, noon, "example.com/keep"
			in.Cluster.Nodes[1].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
		}), []string{"pod other/big, which is being deleted and has not ended, holds 3"}, "oc -n other patch pod big --type=merge", false},
		{"a port", homeless(func(in *Input, waits, big *rollout.Pod) {
			spec := *waits.Spec
			spec.HostPorts, spec.NodeSelector = []rollout.HostPort{{Port: 443, Protocol: corev1.ProtocolTCP}}, map[string]string{corev1.LabelHostname: "c"}
			waits.Spec, big.Spec = &spec, &rollout.PodSpec{HostPorts: spec.HostPorts}
		}), []string{"on node c pod other/big has port 443 there"}, budget + "0", false},
		{"it may run there alone", homeless(func(_ *Input, waits, _ *rollout.Pod) {
			waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
		}), []string{onlyDrained}, budget + "0", false},
		{"there is no such node", homeless(func(_ *Input, waits, _ *rollout.Pod) {
			waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "z"}
		}), []string{"there is no node that its selectors"}, budget + "0", false},
		{"a taint", homeless(func(in *Input, _, _ *rollout.Pod) {
			for _, n := range in.Cluster.Nodes[1:] {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			}
		}), []string{onlyDrained}, budget + "0", false},
		{"spread over zones", homeless(func(in *Input, waits, _ *rollout.Pod) {
			fourMore(in)
			in.Cluster.Pods[0].Node = "" // it has left zone a
			in.Cluster.Pods[0].Ready = false
			in.Cluster.Pods[1].Spec.Spread = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: ofCart}}
			another := cart("another", "a")
			another.Spec.Labels = map[string]string{"app": "other"}
			in.Cluster.Pods = append(in.Cluster.Pods, another)
			in.Cluster.Budgets[0].Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
		}), []string{"on node b topology.kubernetes.io/zone zone-b would have 2 more of them than another, and may have 1 (spread)", onlyDrained}, budget + "2", false},
		{"affinity", homeless(func(in *Input, waits, _ *rollout.Pod) {
			waits.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}), []string{"on node b no pod is there that it has to be beside (affinity by kubernetes.io/hostname)", onlyDrained}, budget + "0", false},
		{"a version that is younger than the drain", homeless(func(_ *Input, waits, _ *rollout.Pod) {
			reviseTo(waits, "6e")
			waits.Created = noon.Add(time.Minute)
			waits.Spec.NodeSelector = map[string]string{"no": "such"}
		}), nil, "oc -n shop rollout undo deployment/cart", true},
		{"a version that is older", homeless(func(_ *Input, waits, _ *rollout.Pod) { reviseTo(waits, "6e") }), nil, budget + "0", false},
		{"a pod that is younger, of the version that runs", homeless(func(_ *Input, waits, _ *rollout.Pod) { waits.Created = noon.Add(time.Minute) }), nil, budget + "0", false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := Diagnose(tt.in, asked(tt.in))
			if len(d.HoldUps) != 1 || d.HoldUps[0].Cause != CausePodNotPlaced {
				t.Fatalf("got %+v", d.HoldUps)
			}
			f := d.HoldUps[0]
			for _, link := range tt.links {
				if !strings.Contains(strings.Join(f.Chain.Lines(), "\n"), link) {
					t.Errorf("got\n%s\nwithout %q", strings.Join(f.Chain.Lines(), "\n"), link)
				}
			}
			i := slices.IndexFunc(f.Remedies, func(r Remedy) bool { return !r.ReadOnly })
			if i < 0 || !strings.HasPrefix(f.Remedies[i].Command, tt.first) {
				t.Errorf("got %+v, want %s", f.Remedies, tt.first)
			}
			if undo := slices.ContainsFunc(f.Remedies, func(r Remedy) bool { return strings.Contains(r.Command, "rollout undo") }); undo != tt.undo {
				t.Errorf("undo: got %v", undo)
			}
		})
	}
}
