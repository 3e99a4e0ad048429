package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// TestReachOf: what is missing until a change has reached the nodes. Config "2" has the entry
// of tagSet.
func TestReachOf(t *testing.T) {
	pool := func(target, current string, words ...string) *mcfgv1.MachineConfigPool {
		p := pools.Worker(target, words...)
		p.Status.Configuration.Name = current
		return p
	}
	in := func(p *mcfgv1.MachineConfigPool, set mirrors.Set, nodes ...*corev1.Node) Input {
		return Input{Input: input(p, nodes...), Mirrors: set}
	}
	with := func(in Input, change func(*Input)) Input {
		change(&in)
		return in
	}
	asked := mirrors.Put(pools.TagSet("").Objects[0])
	other := mirrors.Put(&configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	image := func(r configv1.RegistrySources) mirrors.Edit {
		return mirrors.Put(&configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: configv1.ImageSpec{RegistrySources: r}})
	}
	blocks, allows := image(configv1.RegistrySources{BlockedRegistries: []string{"quay.io/bad"}}), image(configv1.RegistrySources{AllowedRegistries: []string{"quay.io"}})
	has2 := pools.Node("a", "has=2", "wants=2")
	all := in(pool("2", "2"), pools.TagSet(""), has2)
	stray := func(name, system string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}}
	}
	beside := func(in Input, nodes ...*corev1.Node) Input {
		in.Cluster.Nodes = slices.Concat(in.Cluster.Nodes, nodes)
		return in
	}
	const unfound = `node a cannot be told a pool: the nodeSelector of worker is invalid: "?" is not a valid label selector operator, and keeps what it has`
	broken := with(in(pool("2", "2"), pools.TagSet(""), has2), func(in *Input) {
		in.Cluster.Pools[0].Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "?"}}}
	})
	for _, tt := range []struct {
		reason  string
		in      Input
		goal    Goal
		missing string // "" if it is reached
		unknown string
	}{
		{"all have it", all, Goal{}, "", ""},
		{"all have what the file says", all, Goal{Edit: &asked}, "", ""},
		{"MCO has not noticed", in(pool("1", "1"), pools.TagSet(""), pools.Node("a")), Goal{}, "MCO has not rendered what the mirror objects ask for yet, for worker", ""},
		{"nor when a file is waited for", in(pool("1", "1"), pools.TagSet(""), pools.Node("a")), Goal{Edit: &asked}, "MCO has not rendered what the mirror objects ask for yet, for worker", ""},
		{"a registry was blocked, and MCO has not noticed", with(all, func(in *Input) {
			in.Mirrors = blocks.Apply(in.Mirrors)
			in.Mirrors.Payload = release
		}), Goal{Edit: &blocks}, "MCO has not rendered what the mirror objects ask for yet, for worker", ""},
		{"registries were allowed, and MCO has not noticed", with(all, func(in *Input) { in.Mirrors = allows.Apply(in.Mirrors) }), Goal{Edit: &allows}, "MCO has not rendered what the mirror objects ask for yet, for worker", ""},
		{"the object is not there", all, Goal{Edit: &other}, "in the cluster, 1 object is not as the file says: ImageTagMirrorSet other", ""},
		{"the object is another", in(pool("2", "2"), pools.TagSet(configv1.NeverContactSource), has2), Goal{Edit: &asked}, "in the cluster, 1 object is not as the file says: ImageTagMirrorSet shop", ""},
		{"one node has it", in(pool("2", "1"), pools.TagSet(""), has2, pools.Node("b", "wants=2", "state=Working")), Goal{}, "1 of 2 nodes have what the mirror objects ask for; without: b", ""},
		{"the only node that counts is not of the pool", in(pool("2", "1"), pools.TagSet(""), pools.Node("b", "wants=2", "state=Working")), Goal{Pools: []string{"infra"}}, "", ""},
		{"MCO has not counted", in(pool("2", "1"), pools.TagSet(""), has2), Goal{}, "pool worker is updating: ", ""},
		{"which a file does not wait for", in(pool("2", "1"), pools.TagSet(""), has2), Goal{Edit: &asked}, "", ""},
		{"an entry that was deleted is still there", in(pool("2", "2"), mirrors.Set{}, has2), Goal{}, "MCO has not rendered what the mirror objects ask for yet, for worker", ""},
		{"paused, with nothing waiting", in(pool("2", "2", "paused"), pools.TagSet(""), has2), Goal{}, "", ""},
		{"paused, with something waiting", in(pool("2", "1", "paused"), pools.TagSet(""), pools.Node("a")), Goal{}, "0 of 1 node has what the mirror objects ask for; without: a", ""},
		{"it has the config, and gave up", in(pool("2", "2"), pools.TagSet(""), pools.Node("a", "has=2", "wants=2", "state=Degraded")), Goal{Edit: &asked}, "0 of 1 node has what the mirror objects ask for; without: a", ""},
		{"a config could not be read", with(all, func(in *Input) { in.Rendered, in.Unread = nil, map[string]error{"2": errors.New("forbidden")} }), Goal{}, "", "node a: it is not known what is in its rendered config: forbidden"},
		{"no daemon", in(pool("2", "2"), pools.TagSet(""), pools.Node("a", "new")), Goal{}, "", "node a: does not say which rendered config it has"},
		{"nodes may not be read", with(in(pool("2", "2"), pools.TagSet("")), func(in *Input) { in.Cluster.Unknown = []string{"nodes"} }), Goal{}, "", "nodes could not be read"},
		{"no nodes at all", in(pool("2", "2"), pools.TagSet("")), Goal{Edit: &asked}, "", "no node is known"},
		{"nodes in no pool", beside(all, stray("y", ""), stray("z", "")), Goal{}, "", "node y is selected by no pool, and keeps what it has, and 1 more node"},
		{"while a pool is updating", beside(in(pool("2", "1"), pools.TagSet(""), has2), stray("z", "")), Goal{}, "pool worker is updating: ", ""},
		{"which a file does not wait for", beside(all, stray("z", "")), Goal{Edit: &asked}, "", ""},
		{"nor does who waits for pools", beside(all, stray("z", "")), Goal{Pools: []string{"worker"}}, "", ""},
		{"a node that runs Windows", beside(all, stray("w", "windows")), Goal{}, "", ""},
		{"nothing but such nodes", beside(in(pool("2", "2"), pools.TagSet("")), stray("w", "windows")), Goal{}, "", ""},
		{"MCO finds a pool for no node", broken, Goal{}, "", unfound},
		{"nor for those of the pools that count", broken, Goal{Pools: []string{"worker"}}, "", unfound},
		{"nor when a file is waited for", broken, Goal{Edit: &asked}, "", unfound},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			r := ReachOf(tt.in, tt.goal)
			if !strings.HasPrefix(r.Missing, tt.missing) || (tt.missing == "") != (r.Missing == "") || r.Unknown != tt.unknown || r.Reached != (tt.missing == "" && tt.unknown == "") {
				t.Errorf("got %+v", r)
			}
		})
	}
	rejected := with(all, func(in *Input) {
		digest := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		digest.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: "quay.io/shop", Mirrors: []configv1.ImageMirror{"mirror.example.com/shop"}, MirrorSourcePolicy: configv1.NeverContactSource}}
		in.Mirrors = mirrors.Put(digest).Apply(in.Mirrors)
	})
	if r := ReachOf(rejected, Goal{}); r.Reached || !strings.HasPrefix(r.Missing, "MCO rejects the mirror objects: ") {
		t.Errorf("MCO rejects the objects: got %+v", r)
	}
	unselected := with(in(pool("1", "1"), pools.TagSet(""), pools.Node("a")), func(in *Input) {
		in.Cluster.Pools[0].Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	})
	if r := ReachOf(unselected, Goal{}); !r.Reached || r.Nodes != 0 {
		t.Errorf("a pool that gets no mirrors: got %+v", r)
	}
}

// TestReachOfPins: a set for a pool without nodes has nobody to wait for; one that no pool takes will never be held.
func TestReachOfPins(t *testing.T) {
	pool := func(name string) *mcfgv1.MachineConfigPool {
		p := pools.Worker("2")
		p.Name = name
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": name}}
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": name}}
		p.Spec.PinnedImageSets = []mcfgv1.PinnedImageSetRef{{Name: name}}
		return p
	}
	set := func(name, role string) *mcfgv1.PinnedImageSet {
		return &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": role}, Generation: 1}}
	}
	n := pools.Node("a", "has=2", "wants=2")
	n.Labels = map[string]string{"role": "master"}
	for _, tt := range []struct {
		reason  string
		sets    []*mcfgv1.PinnedImageSet
		pools   []string // that count
		unread  bool     // nodes
		missing string
		unknown string
	}{
		{"one pool has no nodes", []*mcfgv1.PinnedImageSet{set("master", "master"), set("worker", "worker")}, nil, false, "0 of 1 PinnedImageSet on a node is held; a has no MachineConfigNode that tells (PinnedImageSet master)", ""},
		{"only a pool without nodes takes it", []*mcfgv1.PinnedImageSet{set("worker", "worker")}, nil, false, "", ""},
		{"no pool takes it", []*mcfgv1.PinnedImageSet{set("other", "other")}, nil, false, "no pool takes PinnedImageSet other: the labels of a PinnedImageSet choose the pool", ""},
		{"it is for a pool that does not count", []*mcfgv1.PinnedImageSet{set("master", "master")}, []string{"worker"}, false, "none of these pools takes PinnedImageSet master", ""},
		{"one of two is for a pool that does not count", []*mcfgv1.PinnedImageSet{set("master", "master"), set("worker", "worker")}, []string{"worker"}, false, "", ""},
		{"nodes may not be read", []*mcfgv1.PinnedImageSet{set("worker", "worker")}, nil, true, "", "nodes could not be read"},
	} {
		in := Input{Input: input(pool("master"), n)}
		in.Cluster.Pools = append(in.Cluster.Pools, pool("worker"))
		in.Cluster.PinnedSets = tt.sets
		if tt.unread {
			in.Cluster.Nodes, in.Cluster.Unknown = nil, []string{"nodes"}
		}
		var edits []mirrors.Edit
		for _, s := range tt.sets {
			edits = append(edits, mirrors.Put(s))
		}
		edit := mirrors.Join(edits...)
		if got := ReachOf(in, Goal{Edit: &edit, Pools: tt.pools}); got.Missing != tt.missing || got.Unknown != tt.unknown {
			t.Errorf("%s: got %q and %q, want %q and %q", tt.reason, got.Missing, got.Unknown, tt.missing, tt.unknown)
		}
	}
}
