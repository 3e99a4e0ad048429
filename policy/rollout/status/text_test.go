package status

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// TestProgress counts nodes, which MCO does a little later.
func TestProgress(t *testing.T) {
	nodes := func(n int) rollout.Pool { return rollout.Pool{Nodes: make([]rollout.Node, n)} }
	for _, tt := range []struct {
		reason string
		pool   Pool
		want   string
	}{
		{"by the nodes", Pool{Machines: 3, Pool: nodes(3), Updated: 3, Left: []Node{{State: NodeDraining}, {State: NodeWaits}}}, "1 of 3 nodes are done"},
		{"by what MCO says, where nodes are not known", Pool{Machines: 3, Updated: 2}, "2 of 3 nodes are done"},
		{"done, and not available", Pool{Machines: 1, Pool: nodes(1), Unavailable: 1, Left: []Node{{State: NodeUnavailable}}}, "1 of 1 node is done, and 1 is not available"},
		{"on its way", Pool{Machines: 2, Pool: nodes(2), Unavailable: 1, Left: []Node{{State: NodeDraining}}, Remaining: rollout.Range{Min: 5 * time.Minute, Max: 15 * time.Minute}}, "1 of 2 nodes are done, the rest takes 5 to 15 minutes"},
	} {
		if got := tt.pool.Progress(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// TestPace: how many nodes go at once, and what happens to each, is said of pools of which none
// can go as well.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		reason string
		change func(*Input)
		want   []string
	}{
		{"one", func(*Input) {}, []string{"a node drains and reloads CRI-O, one at a time"}},
		{"several", func(in *Input) { in.Cluster.Pools[0].Spec.MaxUnavailable = new(intstr.FromInt32(2)) }, []string{"a node drains and reloads CRI-O, up to 2 at a time"}},
		{"none", func(in *Input) { in.Cluster.Nodes[1] = pools.Node("b", "cordoned") }, []string{
			"no node is taken: node b is cordoned", "a node drains and reloads CRI-O, none for now, as others are not available",
		}},
		{"nobody knows how many", func(in *Input) { in.Cluster.Pools[0].Spec.MaxUnavailable = new(intstr.FromString("abc")) }, []string{
			"no node is taken: its maxUnavailable is invalid", "a node drains and reloads CRI-O",
		}},
		{"nobody knows how many, and no node waits", func(in *Input) {
			in.Cluster.Pools[0].Spec.MaxUnavailable = new(intstr.FromString("abc"))
			in.Cluster.Nodes = in.Cluster.Nodes[:1]
			in.Cluster.Nodes[0] = pools.Node("a", "has=2", "wants=2")
		}, []string{"no node is taken: its maxUnavailable is invalid"}},
	} {
		in := input(pools.Worker("2"), pools.Node("a"), pools.Node("b"))
		tt.change(&in)
		lines := strings.Join(Of(in).Pools[0].Lines(), "\n")
		for _, want := range tt.want {
			if !strings.Contains(lines, want) {
				t.Errorf("%s: %q is not in\n%s", tt.reason, want, lines)
			}
		}
	}
}
