package causes

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// homeless is the deadlock of Deployment cart where its second pod is on no node, changed. Of three nodes
// a is being drained and b is updated; on c is pod other/big.
func homeless(change func(in *status.Input, waits, big *rollout.Pod)) status.Input {
	in := deadlock(nil, "pending")
	in.Now = pools.Noon.Add(time.Hour)
	in.Cluster.Nodes[0] = pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1", "cordoned", "by=machine-config-controller")
	in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node("c", "has=2", "wants=2"))
	in.Cluster.Pools[0].Status.MachineCount = 3
	for _, n := range in.Cluster.Nodes {
		n.Labels[corev1.LabelHostname] = n.Name
	}
	in.Cluster.Pods = append(in.Cluster.Pods, cart("big", "c"))
	byDeployment(&in)
	in.Cluster.Pods[1].Node, in.Cluster.Pods[1].Created = "", pools.Noon.Add(-time.Hour)
	big := &in.Cluster.Pods[2]
	big.Namespace, big.Owner = "other", rollout.Owner{Kind: "ReplicaSet", Name: "big-1"}
	change(&in, &in.Cluster.Pods[1], big)
	return in
}

// TestNotPlaced: of a pod that waits for a node it is said that only a node is left that is being drained; the budget is
// the first thing to give way.
func TestNotPlaced(t *testing.T) {
	const (
		onlyDrained = "it may run only on a, which is being drained, and the drain waits for the budget that waits for it"
		budget      = `oc -n shop patch pdb cart --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":`
	)
	for _, tt := range []struct {
		reason string
		in     status.Input
		links  []string
		first  string // of the remedies that change something
		undo   bool
	}{
		{"a pod that does not end", homeless(func(_ *status.Input, _, big *rollout.Pod) {
			big.Deleted, big.Ends, big.Finalizers = true, pools.Noon, "example.com/keep"
		}), []string{"pod other/big on c is being deleted and has not ended: it keeps its place"}, "oc -n other patch pod big --type=merge", false},
		{"it may run there alone", homeless(func(_ *status.Input, waits, _ *rollout.Pod) {
			waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
		}), []string{onlyDrained}, budget + "0", false},
		{"there is no such node", homeless(func(_ *status.Input, waits, _ *rollout.Pod) {
			waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "z"}
		}), []string{"there is no node that its selectors"}, budget + "0", false},
		{"a taint", homeless(func(in *status.Input, _, _ *rollout.Pod) {
			for _, n := range in.Cluster.Nodes[1:] {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			}
		}), []string{onlyDrained}, budget + "0", false},
		{"a version that is younger than the drain", homeless(func(_ *status.Input, waits, _ *rollout.Pod) {
			reviseTo(waits, "6e")
			waits.Created = pools.Noon.Add(time.Minute)
			waits.Spec.NodeSelector = map[string]string{"no": "such"}
		}), nil, "oc -n shop rollout undo deployment/cart", true},
		{"a version that is older", homeless(func(_ *status.Input, waits, _ *rollout.Pod) { reviseTo(waits, "6e") }), nil, budget + "0", false},
		{"a pod that is younger, of the version that runs", homeless(func(_ *status.Input, waits, _ *rollout.Pod) { waits.Created = pools.Noon.Add(time.Minute) }), nil, budget + "0", false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := Diagnose(tt.in, asked(tt.in))
			if len(d.HoldUps) != 1 || d.HoldUps[0].Cause != PodNotPlaced {
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
