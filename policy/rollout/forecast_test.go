package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// pool makes a MachineConfigPool: "worker", "infra", with words for what is not as usual:
// "max=2", "max=10%", "paused", "deleted", "configs=gpu" (the roles it selects, separated by
// commas), "nodes=" (the role of its nodes, the name of the pool otherwise).
func pool(words string) *mcfgv1.MachineConfigPool {
	fields := strings.Fields(words)
	name := fields[0]
	configs, nodes := []string{"worker", name}, name
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if slices.Contains([]string{"master", "worker", "arbiter"}, name) {
		p.Labels, configs = map[string]string{builtIn: ""}, []string{name}
	}
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "max":
			v := intstr.Parse(value)
			p.Spec.MaxUnavailable = &v
		case "paused":
			p.Spec.Paused = true
		case "deleted":
			now := metav1.Unix(0, 0)
			p.DeletionTimestamp = &now
		case "configs":
			configs = strings.Split(value, ",")
		case "nodes":
			nodes = value
		}
	}
	p.Spec.NodeSelector = &metav1.LabelSelector{}
	if nodes != "" {
		p.Spec.NodeSelector.MatchLabels = map[string]string{"node-role.kubernetes.io/" + nodes: ""}
	}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: mcfgv1.MachineConfigRoleLabelKey, Operator: metav1.LabelSelectorOpIn, Values: configs},
	}}
	return p
}

// node makes a node: its name and roles ("w1 worker,gpu"), with words for what is not as
// usual: "zone=a", "age=3" (days; the larger the older), "cordoned", "notready",
// "disk=Unknown", "state=Working", "to=other" (its desiredConfig), "image", "new" (no
// annotations), "windows".
func node(words string) *corev1.Node {
	fields := strings.Fields(words)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fields[0], Labels: map[string]string{"kubernetes.io/os": "linux"},
		Annotations: map[string]string{currentConfig: "rendered-1", desiredConfig: "rendered-1", daemonState: "Done"},
	}}
	ready, disk, age := corev1.ConditionTrue, corev1.ConditionFalse, 0
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "zone":
			n.Labels[corev1.LabelTopologyZone] = value
		case "age":
			_, _ = fmt.Sscan(value, &age)
		case "cordoned":
			n.Spec.Unschedulable = true
		case "notready":
			ready = corev1.ConditionUnknown
		case "disk":
			disk = corev1.ConditionStatus(value)
		case "state":
			n.Annotations[daemonState] = value
		case "to":
			n.Annotations[desiredConfig] = value
		case "image":
			n.Annotations[desiredImage], n.Annotations[currentImage] = "i", "i"
		case "new":
			n.Annotations = nil
		case "windows":
			n.Labels["kubernetes.io/os"] = "windows"
		default:
			for role := range strings.SplitSeq(word, ",") {
				n.Labels["node-role.kubernetes.io/"+role] = ""
			}
		}
	}
	n.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 100-age, 0, 0, 0, 0, time.UTC))
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready}, {Type: corev1.NodeDiskPressure, Status: disk},
	}
	return n
}

func pools(lines ...string) []*mcfgv1.MachineConfigPool { return convert.Each(lines, pool) }

func nodes(lines ...string) []*corev1.Node { return convert.Each(lines, node) }

// numbered returns n nodes with the given role: "role-1", ...
func numbered(n int, role string) []*corev1.Node {
	var out []*corev1.Node
	for i := range n {
		out = append(out, node(fmt.Sprintf("%s-%d %s", role, i+1, role)))
	}
	return out
}

// always returns the same decision for all pools.
func always(d Decision) func(string) (Decision, error) {
	return func(string) (Decision, error) { return d, nil }
}

var (
	special   = []operatorv1.NodeDisruptionPolicyStatusAction{{Type: operatorv1.SpecialStatusAction}}
	drained   = Decision{Changed: []string{registries}, Actions: special, Drains: true, Reasons: []string{"the entry for quay.io is new and has no mirrors"}}
	reloaded  = Decision{Changed: []string{registries}, Actions: special}
	rebooted  = Decision{Changed: []string{searchConf}, Actions: []operatorv1.NodeDisruptionPolicyStatusAction{{Type: operatorv1.RebootStatusAction}}, Drains: true}
	untouched = Decision{}
)

// TestForecast is what is said of a change, in one line.
func TestForecast(t *testing.T) {
	usual := pools("master", "worker")
	cluster := slices.Concat(numbered(3, "master"), numbered(9, "worker"))
	for _, tt := range []struct {
		name     string
		cluster  Cluster
		decision Decision
		want     string
	}{
		{"a reload", Cluster{Pools: usual, Nodes: cluster}, reloaded, "reloads CRI-O without a drain on 12 nodes, 1 to 3 minutes"},
		{"a drain", Cluster{Pools: usual, Nodes: cluster}, drained, "drains and reloads CRI-O on 3 + 9 nodes, one at a time, 45 to 135 minutes"},
		{"a reboot", Cluster{Pools: usual, Nodes: cluster}, rebooted, "drains and reboots on 3 + 9 nodes, one at a time, 81 to 270 minutes"},
		{"nothing", Cluster{Pools: usual, Nodes: cluster}, untouched, "reaches no node"},
		{"one node", Cluster{Pools: usual, Nodes: nodes("m master,worker")}, drained, "drains and reloads CRI-O on 1 node, 5 to 15 minutes"},
		{"a pool is paused", Cluster{Pools: pools("master", "worker", "gpu paused"), Nodes: slices.Concat(cluster, nodes("g worker,gpu"))}, drained, "drains and reloads CRI-O on 3 + 9 nodes, one at a time, 45 to 135 minutes; pool gpu is paused"},
		{"all pools are paused", Cluster{Pools: pools("master paused", "worker paused"), Nodes: cluster}, drained, "reaches no node; pool master is paused; pool worker is paused"},
		{"pools at their own pace", Cluster{Pools: pools("master", "worker max=3"), Nodes: cluster}, drained, "drains and reloads CRI-O on 3 + 9 nodes, up to 3 at a time, 15 to 45 minutes"},
		{"all at once", Cluster{Pools: pools("worker max=100%"), Nodes: numbered(4, "worker")}, drained, "drains and reloads CRI-O on 4 nodes, all at once, 5 to 15 minutes"},
		{"a node is cordoned", Cluster{Pools: usual, Nodes: nodes("m master", "w1 worker", "w2 worker cordoned")}, drained, "drains and reloads CRI-O on 1 node, 5 to 15 minutes; no node of pool worker is taken: node w2 is cordoned, and maxUnavailable is 1"},
		{"a node is cordoned, and there is room", Cluster{Pools: pools("worker max=2"), Nodes: nodes("w1 worker", "w2 worker cordoned", "w3 worker")}, drained, "drains and reloads CRI-O on 2 nodes, one at a time, 10 to 30 minutes; pool worker cannot finish: node w2 is cordoned"},
		{"all nodes are down, and there is room", Cluster{Pools: pools("worker max=5"), Nodes: nodes("w1 worker notready", "w2 worker cordoned")}, drained, "reaches no node; no node of pool worker is taken: node w1 is not ready (and 1 more)"},
		{"a node is being updated", Cluster{Pools: usual, Nodes: nodes("w1 worker", "w2 worker cordoned to=rendered-2 state=Working")}, drained, "drains and reloads CRI-O on 2 nodes, one at a time, 10 to 45 minutes"},
		{"nodes in no pool", Cluster{Pools: usual, Nodes: nodes("w1 worker", "x", "win worker windows")}, reloaded, "reloads CRI-O without a drain on 1 node, about a minute; 2 nodes are in no pool (win runs Windows)"},
		{"a pool that selects nothing of it", Cluster{Pools: pools("worker", "edge configs=edge"), Nodes: nodes("w worker", "e worker,edge")}, reloaded, "reloads CRI-O without a drain on 1 node, about a minute; pool edge does not get it: its machineConfigSelector selects none of the MachineConfigs that MCO generates for registries"},
		{"hosted", Cluster{Pools: usual, Nodes: cluster, Topology: configv1.ExternalTopologyMode}, drained, "changes nodes as their NodePool says (Replace or InPlace): hosted clusters are not covered"},
		{"no pools", Cluster{Nodes: nodes("a")}, drained, "reaches no node; 1 node is in no pool (a is selected by no pool)"},
		{"no cluster", Cluster{}, drained, "reaches no node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewForecast(tt.cluster, always(tt.decision))
			if got := f.String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			later, _ := f.Released(false, false)
			if slices.ContainsFunc(later.Pools, func(p Pool) bool { return p.Part == Takes && p.AtOnce != p.MaxUnavailable }) {
				t.Errorf("released, and held all the same: %+v", later.Pools)
			}
		})
	}
}

// TestPoolsDiffer: where MachineConfigs lay other files on some pools, each has its own
// decision.
func TestPoolsDiffer(t *testing.T) {
	c := Cluster{Pools: pools("master", "worker", "gpu", "infra"), Nodes: nodes("m master", "w1 worker", "w2 worker", "g worker,gpu", "i worker,infra")}
	decide := func(pool string) (Decision, error) {
		switch pool {
		case "gpu":
			return Decision{}, errors.New("/etc/containers/registries.conf: it is broken")
		case "infra":
			return untouched, nil
		case "worker":
			return drained, nil
		default:
			return reloaded, nil
		}
	}
	const want = "reloads CRI-O without a drain on 1 node, about a minute; drains and reloads CRI-O on 2 nodes, one at a time, 10 to 30 minutes; nodes of pool gpu will be degraded: /etc/containers/registries.conf: it is broken"
	f := NewForecast(c, decide)
	if got := f.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if f.Time != (Range{10 * time.Minute, 30 * time.Minute}) {
		t.Errorf("time %v", f.Time)
	}
}

// TestMembership is which pool updates a node (GetPoolsForNode in MCO's pkg/helpers).
func TestMembership(t *testing.T) {
	all := pools("worker", "master", "infra", "gpu")
	for _, tt := range []struct{ node, want string }{
		{"n worker", "worker"},
		{"n master", "master"},
		{"n master,worker", "master"},
		{"n worker,infra", "infra"},
		{"n infra", "infra"},
		{"n master,infra", "master"},
		{"n worker,infra,gpu", "is selected by pools gpu and infra"},
		{"n master,infra,gpu", "is selected by pools gpu and infra"},
		{"n", "is selected by no pool"},
		{"n worker windows", "runs Windows"},
	} {
		m := newMembership(all, nodes(tt.node))
		got := ""
		for pool := range m.nodes {
			got += pool
		}
		for _, u := range m.unmanaged {
			got += u.Why
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.node, got, tt.want)
		}
	}
}

// TestSelectors: what selects nothing, or cannot be read.
func TestSelectors(t *testing.T) {
	part := func(p *mcfgv1.MachineConfigPool) string {
		f := NewForecast(Cluster{Pools: []*mcfgv1.MachineConfigPool{p}, Nodes: nodes("w worker")}, always(reloaded))
		return strings.TrimSpace(string(f.Pools[0].Part) + " " + f.Pools[0].Why)
	}
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for _, tt := range []struct {
		name string
		edit func(*mcfgv1.MachineConfigPool)
		want string
	}{
		{"as usual", func(*mcfgv1.MachineConfigPool) {}, "takes"},
		{"no node selector", func(p *mcfgv1.MachineConfigPool) { p.Spec.NodeSelector = nil }, "empty"},
		{"an empty node selector", func(p *mcfgv1.MachineConfigPool) { p.Spec.NodeSelector = &metav1.LabelSelector{} }, "empty"},
		{"an invalid node selector", func(p *mcfgv1.MachineConfigPool) { p.Spec.NodeSelector = invalid }, "empty"},
		{"no selector of MachineConfigs", func(p *mcfgv1.MachineConfigPool) { p.Spec.MachineConfigSelector = nil }, "unselected its machineConfigSelector selects none of the MachineConfigs that MCO generates for registries"},
		{"an empty one", func(p *mcfgv1.MachineConfigPool) { p.Spec.MachineConfigSelector = &metav1.LabelSelector{} }, "unselected its machineConfigSelector selects none of the MachineConfigs that MCO generates for registries"},
		{"an invalid one", func(p *mcfgv1.MachineConfigPool) { p.Spec.MachineConfigSelector = invalid }, `invalid its machineConfigSelector is invalid: "Like" is not a valid label selector operator`},
		{"a maxUnavailable that is no number", func(p *mcfgv1.MachineConfigPool) { v := intstr.FromString("few"); p.Spec.MaxUnavailable = &v }, "invalid its maxUnavailable is invalid: invalid value for IntOrString: invalid type: string is not a percentage"},
		{"a negative one", func(p *mcfgv1.MachineConfigPool) { v := intstr.FromInt32(-1); p.Spec.MaxUnavailable = &v }, "stopped maxUnavailable is -1"},
		{"deleted", func(p *mcfgv1.MachineConfigPool) { *p = *pool("worker deleted paused") }, "deleted"},
	} {
		p := pool("worker")
		tt.edit(p)
		if got := part(p); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	broken := pool("gpu")
	broken.Spec.NodeSelector = invalid
	f := NewForecast(Cluster{Pools: append(pools("worker"), broken), Nodes: nodes("w worker")}, always(reloaded))
	const want = `cannot be told a pool: the nodeSelector of gpu is invalid: "Like" is not a valid label selector operator`
	if len(f.Unmanaged) != 1 || f.Unmanaged[0].Why != want {
		t.Errorf("got %q, want %q", f.Unmanaged, want)
	}
}

// TestMaxUnavailable is how MCO rounds.
func TestMaxUnavailable(t *testing.T) {
	for _, tt := range []struct {
		pool  string
		nodes int
		want  int
	}{
		{"worker", 9, 1},
		{"worker max=3", 9, 3},
		{"worker max=0", 9, 1},
		{"worker max=0%", 9, 1},
		{"worker max=10%", 9, 1},
		{"worker max=10%", 19, 1},
		{"worker max=10%", 20, 2},
		{"worker max=33%", 9, 2},
		{"worker max=100%", 9, 9},
		{"worker max=20", 9, 20},
		{"arbiter max=3", 9, 1},
		{"worker max=10%", 5000, 500},
	} {
		if got, err := maxUnavailable(pool(tt.pool), tt.nodes); got != tt.want || err != nil {
			t.Errorf("%s of %d: got %d, want %d (%v)", tt.pool, tt.nodes, got, tt.want, err)
		}
	}
}

// TestOrder is the order in which MCO takes nodes, those of one rank in brackets.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []string
		last  string
		want  string
	}{
		{"by age", []string{"a x age=1", "b x age=3", "c x age=2"}, "", "b c a"},
		{"by zone first", []string{"a x zone=b age=9", "b x zone=a age=1", "c x zone=a age=2"}, "", "c b a"},
		{"without a zone last", []string{"a x age=9", "b x zone=z age=1"}, "", "b a"},
		{"an empty zone is one", []string{"a x age=9", "b x zone= age=1", "c x zone=a"}, "", "b c a"},
		{"of one age", []string{"c x age=1", "a x age=1", "b x age=2"}, "", "b [a c]"},
		{"of one age in two zones", []string{"c x age=1 zone=a", "a x age=1 zone=b"}, "", "c a"},
		{"the operator's node", []string{"a x zone=a age=9", "b x age=1"}, "a", "b a"},
		{"none", nil, "", ""},
	} {
		ordered := inOrder(nodes(tt.nodes...), tt.last)
		var got []string
		for i, n := range ordered {
			name := n.Name
			tiedBefore := i > 0 && ordered[i-1].Rank == n.Rank
			tiedAfter := i+1 < len(ordered) && ordered[i+1].Rank == n.Rank
			if tiedAfter && !tiedBefore {
				name = "[" + name
			}
			if tiedBefore && !tiedAfter {
				name += "]"
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestUnavailable is which nodes MCO counts (IsUnavailableForUpdate in its
// layered_node_state.go), and which of them will pass.
func TestUnavailable(t *testing.T) {
	for _, tt := range []struct {
		node, want string
		updating   bool
	}{
		{"n", "", false},
		{"n cordoned", "is cordoned", false},
		{"n notready", "is not ready", false},
		{"n disk=Unknown", "reports DiskPressure Unknown", false},
		{"n disk=True", "reports DiskPressure True", false},
		{"n to=rendered-2 state=Working", "is being updated", true},
		{"n to=rendered-2 state=Done", "is being updated", true}, // it has not begun
		{"n state=Working", "is being updated", true},            // it ends
		{"n to=rendered-2 state=Working cordoned", "is cordoned", true},
		{"n to=rendered-2 state=Rebooting notready", "is not ready", true},
		{"n to=rendered-2 state=Degraded", "", false},
		{"n to=rendered-2 state=Degraded cordoned", "is cordoned", false},
		{"n to=rendered-2 state=Unreconcilable", "", false},
		{"n state=Degraded", "is degraded although it has its config", false},
		{"n new", "has not been reported on by its machine-config-daemon", false},
		{"n state=", "has not been reported on by its machine-config-daemon", false},
		{"n image", "", false},
		{"n state=Dancing", "is being updated", true}, // what a newer MCO may say
	} {
		why, updating := unavailable(node(tt.node))
		if why != tt.want || updating != tt.updating {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.node, why, updating, tt.want, tt.updating)
		}
	}
	optedOut := node("n image")
	delete(optedOut.Annotations, desiredImage)
	if why, _ := unavailable(optedOut); why != "is being updated" {
		t.Errorf("a node that loses its image: %q", why)
	}
}

// TestArbiter: masters first, and neither pool while a node of the other is down.
func TestArbiter(t *testing.T) {
	forecast := func(masters string, lines ...string) Forecast {
		return NewForecast(Cluster{Pools: pools(masters, "arbiter"), Nodes: nodes(lines...), Topology: configv1.HighlyAvailableArbiterMode}, always(drained))
	}
	f := forecast("master", "m1 master", "m2 master", "a arbiter")
	if got := f.pool("arbiter"); got.After != "master" || f.Time != (Range{15 * time.Minute, 45 * time.Minute}) {
		t.Errorf("after %q, in all %v", got.After, f.Time)
	}
	for _, tt := range []struct {
		masters string
		nodes   []string
		want    string
	}{
		{"master paused", []string{"m1 master", "m2 master", "a arbiter"}, "drains and reloads CRI-O on 1 node, 5 to 15 minutes; pool master is paused"},
		{"master paused", []string{"m1 master", "m2 master notready", "a arbiter"}, "reaches no node; pool master is paused; no node of pool arbiter is taken: node m2 is not ready, in pool master"},
		{"master max=2", []string{"m1 master", "m2 master notready", "a arbiter"}, "drains and reloads CRI-O on 1 node, 5 to 15 minutes; pool master cannot finish: node m2 is not ready; no node of pool arbiter is taken: node m2 is not ready, in pool master"},
		{"master", []string{"m1 master", "m2 master", "a arbiter cordoned"}, "reaches no node; no node of pool master is taken: node a is cordoned, in pool arbiter; no node of pool arbiter is taken: node a is cordoned, and maxUnavailable is 1"},
	} {
		if got := forecast(tt.masters, tt.nodes...).String(); got != tt.want {
			t.Errorf("%s, %v:\ngot  %s\nwant %s", tt.masters, tt.nodes, got, tt.want)
		}
	}
}

// TestPoolsInOrder: pools have one order, whatever that of their list is, and nobody's
// objects are changed.
func TestPoolsInOrder(t *testing.T) {
	list := pools("zeta", "worker", "alpha", "master", "arbiter")
	f := NewForecast(Cluster{Pools: list}, always(reloaded))
	names := convert.Each(f.Pools, func(p Pool) string { return p.Name + ":" + string(p.Part) })
	if got := strings.Join(names, " "); got != "master:empty arbiter:empty worker:empty alpha:empty zeta:empty" {
		t.Errorf("got %s", got)
	}
	if list[0].Name != "zeta" {
		t.Error("the caller's list was sorted")
	}
}

func TestRange(t *testing.T) {
	for _, tt := range []struct {
		min, max time.Duration
		want     string
	}{
		{0, 0, "no time"},
		{5 * time.Second, 20 * time.Second, "about a minute"},
		{60 * time.Second, 60 * time.Second, "about a minute"},
		{45 * time.Second, 3 * time.Minute, "1 to 3 minutes"},
		{90 * time.Second, 2 * time.Minute, "about 2 minutes"},
		{45 * time.Minute, 135 * time.Minute, "45 to 135 minutes"},
		{5 * time.Hour, 15 * time.Hour, "5 to 15 hours"},
		{30 * time.Hour, 90 * time.Hour, "30 to 90 hours"},
		{417 * time.Hour, 1250 * time.Hour, "18 to 53 days"},
	} {
		if got := (Range{tt.min, tt.max}).String(); got != tt.want {
			t.Errorf("%v to %v: got %q, want %q", tt.min, tt.max, got, tt.want)
		}
	}
}

// BenchmarkForecast: 5,000 nodes in 20 pools take milliseconds.
func BenchmarkForecast(b *testing.B) {
	c := Cluster{Pools: pools("master", "worker")}
	for i := range 20 {
		name := fmt.Sprintf("pool%d", i)
		c.Pools = append(c.Pools, pool(name+" max=10%"))
		c.Nodes = append(c.Nodes, numbered(250, name)...)
	}
	for b.Loop() {
		NewForecast(c, always(drained))
	}
}
