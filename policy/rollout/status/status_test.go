package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

func input(pool *mcfgv1.MachineConfigPool, nodes ...*corev1.Node) Input {
	return Input{Cluster: pools.Cluster(pool, nodes...), Rendered: pools.Configs()}
}

func TestNodes(t *testing.T) {
	for _, tt := range []struct {
		reason string
		node   *corev1.Node
		want   string // the state, "" for a node that is done
		lines  []string
	}{
		{"it has the target", pools.Node("a", "has=2", "wants=2"), "", nil},
		{"not taken yet", pools.Node("a"), "waits for its turn", nil},
		{"not taken, and cordoned by a person", pools.Node("a", "cordoned", "by=kubectl-cordon"), "waits for its turn; is cordoned", []string{"cordoned at 2026-03-01 12:00 UTC by kubectl-cordon"}},
		{"cordoned, and nothing says by whom", pools.Node("a", "cordoned"), "waits for its turn; is cordoned", []string{"cordoned"}},
		{"just taken", pools.Node("a", "wants=2"), "is being updated", nil},
		{"asked for a drain", pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1"), "is being drained", []string{"asked for drain-2, done is uncordon-1"}},
		{"asked for its first drain", pools.Node("a", "wants=2", "state=Working", "asked=drain-2"), "is being drained", []string{"asked for drain-2, done is nothing"}},
		{"drained", pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=drain-2"), "is drained and being updated", nil},
		{"back in service", pools.Node("a", "wants=2", "state=Working", "asked=uncordon-2", "drained=drain-2"), "is being updated", []string{"asked for uncordon-2, done is drain-2"}},
		{"gave up", pools.Node("a", "wants=2", "state=Degraded", "reason=disk is full"), "is degraded: disk is full", nil},
		{"gave up on what it has", pools.Node("a", "has=2", "wants=2", "state=Degraded", "reason=content mismatch"), "is degraded: content mismatch; is degraded although it has its config", nil},
		{"done, and cordoned", pools.Node("a", "has=2", "wants=2", "cordoned"), "is done, but not available; is cordoned", []string{"cordoned"}},
		{"done, and its kubelet is away", pools.Node("a", "has=2", "wants=2", "notready"), "is done, but not available; is not ready", []string{"Ready False, at 2026-03-01 12:00 UTC: Kubelet"}},
		{"no daemon has come up", pools.Node("a", "new"), "has not been reported on by its daemon; has not been reported on by its machine-config-daemon", nil},
		{"garbage", pools.Node("a", "state=\x1b[2J\n", "wants=\x00", "reason=a\nb"), "is being updated: a b; its daemon says [2J", nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			nodes := Of(input(pools.Worker("2"), tt.node)).Pools[0].Left
			got, lines := "", []string(nil)
			if len(nodes) > 0 {
				got, lines = nodes[0].String(), nodes[0].Lines(time.Time{})
			}
			if got != tt.want || !slices.Equal(lines, tt.lines) {
				t.Errorf("got %q, %q\nwant %q, %q", got, lines, tt.want, tt.lines)
			}
		})
	}
}

func TestPools(t *testing.T) {
	for _, tt := range []struct {
		reason string
		pool   *mcfgv1.MachineConfigPool
		nodes  []*corev1.Node
		want   PoolState
		part   string // of the lines
	}{
		{"all have it", pools.Worker("1"), []*corev1.Node{pools.Node("a")}, PoolUpdated, ""},
		{"one waits", pools.Worker("2"), []*corev1.Node{pools.Node("a")}, PoolUpdating, "  a node drains and reloads CRI-O, one at a time"},
		{"MCO says so although no node shows it yet", pools.Worker("1", "updating"), []*corev1.Node{pools.Node("a")}, PoolUpdating, ""},
		{"paused, and nothing waits", pools.Worker("1", "paused"), []*corev1.Node{pools.Node("a")}, PoolPaused, "pool worker is paused; since when is not recorded"},
		{"paused, and something waits", pools.Worker("2", "paused"), []*corev1.Node{pools.Node("a")}, PoolPaused, "2 waits for its nodes already"},
		{"a cordoned node takes the only place", pools.Worker("2"), []*corev1.Node{pools.Node("a", "cordoned"), pools.Node("b")}, PoolHeld, "no node is taken: node a is cordoned, and maxUnavailable is 1"},
		{"a node gave up", pools.Worker("2"), []*corev1.Node{pools.Node("a", "wants=2", "state=Degraded", "reason=disk is full")}, PoolDegraded, "degraded: node a: disk is full"},
		{"MCO says degraded, and no node does", pools.Worker("1", "degraded=node b is gone"), []*corev1.Node{pools.Node("a")}, PoolDegraded, "degraded: NodeDegraded: node b is gone"},
		{"MCO renders nothing for it", pools.Worker("1", "norender=bad file"), []*corev1.Node{pools.Node("a")}, PoolDegraded, "degraded: RenderDegraded: bad file"},
		{"being deleted", pools.Worker("2", "deleted"), []*corev1.Node{pools.Node("a")}, PoolDeleted, ""},
		{"never rendered", pools.Worker(""), nil, PoolUpdating, "from 1 to (none):"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			p := Of(input(tt.pool, tt.nodes...)).Pools[0]
			if lines := strings.Join(p.Lines(), "\n"); p.State != tt.want || !strings.Contains(lines, tt.part) {
				t.Errorf("got %q\n%s\nwant %q\n%s", p.State, lines, tt.want, tt.part)
			}
		})
	}
}

// TestRemaining: nodes that wait are counted whole, those under way at most so, and none
// where no node is taken.
// TestReplacedTarget: where a target replaces another one on its way, nodes that never got that one lack
// what it brings as well.
func TestReplacedTarget(t *testing.T) {
	const more = "[[registry]]\nlocation = \"quay.io/more\"\n[[registry.mirror]]\nlocation = \"mirror.example.com/more\"\npull-from-mirror = \"digest-only\"\n"
	for _, tt := range []struct {
		reason string
		nodes  []*corev1.Node
		unread string // a config
		from   string
		scopes []string
		drains bool
	}{
		{"all nodes have the one before", []*corev1.Node{pools.Node("a", "has=2", "wants=2"), pools.Node("b", "has=2", "wants=2")}, "", "2", []string{"quay.io/more"}, false},
		{"one does not", []*corev1.Node{pools.Node("a", "has=2", "wants=2"), pools.Node("b")}, "", "1", []string{"quay.io/more", "quay.io/shop"}, true},
		{"the next one has", []*corev1.Node{pools.Node("a", "has=3", "wants=3"), pools.Node("b"), pools.Node("c", "has=2", "wants=2")}, "", "1", []string{"quay.io/more", "quay.io/shop"}, true},
		{"what one has is not known", []*corev1.Node{pools.Node("a", "has=2", "wants=2"), pools.Node("b")}, "1", "1", []string{"quay.io/more"}, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			in := input(pools.Worker("3"), tt.nodes...)
			in.Rendered["3"] = pools.Rendered("3", more+pools.Shop)
			delete(in.Rendered, tt.unread)
			p := Of(in).Pools[0]
			var scopes []string
			for _, r := range p.Changes.Registries {
				scopes = append(scopes, r.Scope)
			}
			slices.Sort(scopes)
			if p.From != tt.from || !slices.Equal(scopes, tt.scopes) || p.Drains != tt.drains {
				t.Errorf("from %s: %q, drains: %t", p.From, scopes, p.Drains)
			}
		})
	}
}

func TestRemaining(t *testing.T) {
	for _, tt := range []struct {
		reason string
		pool   *mcfgv1.MachineConfigPool
		nodes  []*corev1.Node
		want   string
	}{
		{"two wait", pools.Worker("2"), []*corev1.Node{pools.Node("a"), pools.Node("b")}, "10 to 30 minutes"},
		{"one waits and one is under way", pools.Worker("2"), []*corev1.Node{pools.Node("a", "wants=2"), pools.Node("b")}, "5 to 30 minutes"},
		{"one is done", pools.Worker("2"), []*corev1.Node{pools.Node("a", "has=2", "wants=2"), pools.Node("b")}, "5 to 15 minutes"},
		{"all are", pools.Worker("2"), []*corev1.Node{pools.Node("a", "has=2", "wants=2")}, ""},
		{"paused", pools.Worker("2", "paused"), []*corev1.Node{pools.Node("a")}, ""},
		{"none is taken", pools.Worker("2"), []*corev1.Node{pools.Node("a", "cordoned"), pools.Node("b")}, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := Of(input(tt.pool, tt.nodes...))
			got := ""
			if s.Remaining.Max > 0 {
				got = s.Remaining.String()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNotes: what is not known is said, and why.
func TestNotes(t *testing.T) {
	in := input(pools.Worker("2"), pools.Node("a"))
	in.Cluster.Unknown = []string{"clusteroperators", "poddisruptionbudgets"}
	in.Rendered = nil
	in.Unread = map[string]error{"2": errors.New("may not be read")}
	in.Cluster.Pools[0].Status.MachineCount = 2
	s := Of(in)
	want := []string{
		"clusteroperators could not be read: what the operator says of itself is not known",
		"pool worker: cannot tell what changes, or whether nodes are drained: may not be read",
		"pool worker counts 2 machines, and 1 of its nodes are there: its status is out of date, or not all was read",
	}
	if !slices.Equal(s.Notes, want) {
		t.Errorf("got %q, want %q", s.Notes, want)
	}
	if p := s.Pools[0]; p.Changes != nil || p.Action != "" || !strings.Contains(strings.Join(p.Lines(), "\n"), "what differs is not known") {
		t.Errorf("something is told of configs that were not read: %+v", p)
	}
}

func TestMachineConfigNode(t *testing.T) {
	in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working"))
	m := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	m.Status.Conditions = []metav1.Condition{
		{Type: "Updated", Status: "False", LastTransitionTime: metav1.Time{Time: pools.Noon}},
		{Type: "Drained", Status: "Unknown", Message: "cannot evict shop/cart-1", LastTransitionTime: metav1.Time{Time: pools.Noon.Add(time.Minute)}},
		{Type: "Cordoned", Status: "False"},
	}
	in.MachineNodes = []*mcfgv1.MachineConfigNode{m}
	n := Of(in).Pools[0].Left[0]
	want := []string{"its update began at 2026-03-01 12:00 UTC (2h0m ago)", "Drained Unknown, at 2026-03-01 12:01 UTC (1h59m ago): cannot evict shop/cart-1"}
	if got := n.Lines(pools.Noon.Add(2 * time.Hour)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhen: a clock that is behind the cluster's says nothing of how long ago something was.
func TestWhen(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		0: "at 2026-03-01 12:00 UTC", -time.Hour: "at 2026-03-01 12:00 UTC", 90 * time.Minute: "at 2026-03-01 12:00 UTC (1h30m ago)",
	} {
		if got := When(pools.Noon, pools.Noon.Add(ahead)); got != want {
			t.Errorf("%v: got %q, want %q", ahead, got, want)
		}
	}
}

func TestApplies(t *testing.T) {
	pools := []*mcfgv1.MachineConfigPool{pools.Worker("1")}
	for _, tt := range []struct {
		cluster rollout.Cluster
		want    error
	}{
		{rollout.Cluster{Pools: pools}, nil},
		{rollout.Cluster{Pools: pools, Topology: configv1.ExternalTopologyMode}, ErrHosted},
		{rollout.Cluster{}, ErrNoPools},
		{rollout.Cluster{Unknown: []string{"machineconfigpools"}}, ErrPoolsUnknown},
	} {
		if got := Applies(tt.cluster); !errors.Is(got, tt.want) {
			t.Errorf("%+v: got %v, want %v", tt.cluster, got, tt.want)
		}
	}
}

// TestNeeded: nodes may say that they have anything, and cannot make a status read without
// end.
func TestNeeded(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 10 {
		nodes = append(nodes, pools.Node(fmt.Sprint(i), fmt.Sprintf("has=garbage-%d", i)))
	}
	c := rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{pools.Worker("2")}, Nodes: append(nodes, pools.Node("new", "new"))}
	if got, want := Needed(c, 4), []string{"1", "2", "garbage-0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Needed(c, 4), 4; len(got) > want {
		t.Errorf("got %d, want at most %d", len(got), want)
	}
}

func TestIfPaused(t *testing.T) {
	unread := input(pools.Worker("2", "paused"))
	unread.Cluster.Unknown, unread.Cluster.Pools[0].Status.MachineCount = []string{"nodes"}, 3
	for _, tt := range []struct {
		reason string
		in     Input
		paused bool
		want   []string // parts, in this order
	}{
		{"resumed, and nothing waits", input(pools.Worker("1", "paused"), pools.Node("a")), false, []string{"nothing waits for its nodes: none is touched"}},
		{"resumed, where nodes could not be read", unread, false, []string{"2 waits for nodes, and how many there are is not known", "nodes could not be read: which node waits for what is not known"}},
		{"resumed", input(pools.Worker("2", "paused"), pools.Node("a"), pools.Node("b")), false, []string{"2 waits for 2 nodes", "registries.conf: quay.io/shop", "a node drains and reloads CRI-O", "it takes 10 to 30 minutes"}},
		{"resumed, with a cordoned node", input(pools.Worker("2", "paused"), pools.Node("a", "cordoned"), pools.Node("b")), false, []string{"no node is taken: node a is cordoned"}},
		{"paused in the middle", input(pools.Worker("2"), pools.Node("a", "has=2", "wants=2"), pools.Node("b", "wants=2", "state=Working"), pools.Node("c")), true, []string{
			"no node is given another config", "1 node that the update has reached go on with it: b", "1 node stays without 2: c", "its nodes get no new CA meanwhile", "an update of the cluster cannot finish while pool worker is paused",
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			was := tt.in.Cluster.Pools[0].Spec.Paused
			rest := strings.Join(IfPaused(tt.in, "worker", tt.paused), "\n")
			for _, part := range tt.want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Fatalf("%q is not in, or not in its place:\n%s", part, rest)
				}
				rest = after
			}
			if tt.in.Cluster.Pools[0].Spec.Paused != was {
				t.Error("the pool was changed")
			}
		})
	}
}
