package causes

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// manyBroken is a large cluster in which each node is broken: a third each is being drained and
// waits for the same budget, has given up, or is not ready.
func manyBroken(manyNodes, podsOfNode int) status.Input {
	var nodes []*corev1.Node
	var pods []rollout.Pod
	for i := range manyNodes {
		name := fmt.Sprintf("worker-%d.cluster.example.com", i)
		switch i % 3 {
		case 0:
			nodes = append(nodes, pools.Node(name, "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1"))
		case 1:
			nodes = append(nodes, pools.Node(name, "wants=2", "state=Degraded", "reason=failed to update OS on "+name+": disk is full"))
		default:
			nodes = append(nodes, pools.Node(name, "notready"))
		}
		for j := range podsOfNode {
			pods = append(pods, cart(fmt.Sprintf("%d-%d", i, j), name))
		}
	}
	in := input(pools.Worker("2"), nodes...)
	in.Cluster.Pods = append(pods, cart("replacement", nodes[0].Name, "failing=ImagePullBackOff"))
	in.Cluster.Budgets = []*policyv1.PodDisruptionBudget{cartBudget("cart", 0, 1, 1)}
	return in
}

// TestMany: the diagnosis of a large cluster is short. BenchmarkDiagnose says what it costs.
func TestMany(t *testing.T) {
	const manyNodes = 1_500
	in := manyBroken(manyNodes, 4)
	d := Diagnose(in, asked(in))
	if len(d.HoldUps) != 3 || len(d.Asks.Evictions) > maxEvictions {
		t.Fatalf("got %d findings, %d evictions to ask for", len(d.HoldUps), len(d.Asks.Evictions))
	}
	for _, f := range d.HoldUps {
		if len(f.AlsoNodes) < manyNodes/3-1 || len(f.Others()) > 400 || len(f.Chain.Links) > 12 || len(f.Remedies) > 12 {
			t.Errorf("%s: %d nodes, a chain of %d, %d remedies, %q", f.Cause, len(f.AlsoNodes), len(f.Chain.Links), len(f.Remedies), f.Others())
		}
	}
}

// BenchmarkDiagnose is the diagnosis of a cluster of 5,000 broken nodes and 100,000 pods, beside
// the floor: to decode the nodes alone.
func BenchmarkDiagnose(b *testing.B) {
	in := manyBroken(5_000, 20)
	set := asked(in)
	data, err := json.Marshal(in.Cluster.Nodes)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Diagnose", func(b *testing.B) {
		for b.Loop() {
			Diagnose(in, set)
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			var nodes []*corev1.Node
			if err := json.Unmarshal(data, &nodes); err != nil {
				b.Fatal(err)
			}
		}
	})
}
