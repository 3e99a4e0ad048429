package rollout

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// stallsAfter is longer than a pool of TestFullSize takes for a node. The guard would wait ten minutes.
const stallsAfter = 45 * time.Second

// fullSize is a cluster of five pools: 30 nodes with 300 pods, those of MCO included.
func fullSize() story {
	const workers = 18
	pools := []stage.Pool{{Name: "master"}, {Name: "worker", MaxUnavailable: "3"}, {Name: "gpu", Paused: true}, {Name: "infra"}, {Name: "storage"}}
	s := story{name: "full size", setup: stage.Setup{Pools: pools}}
	everywhere := func(name string) app {
		return app{name: name, kind: "DaemonSet", image: sources + "/" + name + ":v1", more: []string{"tolerations: [{operator: Exists}]"}}
	}
	on := func(pool, name string, replicas int, budget string) app {
		return app{name: name, replicas: replicas, image: sources + "/" + name + ":v1", role: pool, budget: budget}
	}
	s.apps = []app{
		everywhere("exporter"), everywhere("resolver"), // 60 pods, and MCO has 31
		on("master", "etcd-guard", 3, "maxUnavailable: 1").apartFromEachOther(),
		on("master", "apiserver-guard", 3, "maxUnavailable: 1").apartFromEachOther(),
		on("master", "console", 2, "minAvailable: 1"),
		on("infra", "router", 2, "minAvailable: 1").apartFromEachOther().onPorts(80, 443, 1936),
		inOrder(on("infra", "prometheus", 2, "minAvailable: 1").apartFromEachOther()),
		on("infra", "registry", 3, "maxUnavailable: 1"),
		inOrder(on("storage", "store", 3, "maxUnavailable: 1").apartFromEachOther()),
		on("gpu", "training", 4, ""),
		on("worker", "shop", 20, "maxUnavailable: 25%").pulledAlways(),
	}
	const spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %s}}}]"
	for i := range 8 {
		name := fmt.Sprintf("web-%d", i+1)
		s.apps = append(s.apps, on("worker", name, workers, "maxUnavailable: 20%").with(fmt.Sprintf(spread, name)))
	}
	s.apps = append(s.apps, inOrder(on("worker", "db", 3, "maxUnavailable: 1").apartFromEachOther()), on("worker", "batch", 20, ""))
	cached := []string{"quay.io/mco/daemon:v1"}
	s.serves = append(s.serves, cached...)
	for _, a := range s.apps {
		cached = append(cached, a.image)
		s.serves = append(s.serves, a.image, strings.Replace(a.image, sources, atMirror, 1))
	}
	for i := range workers { // those of a pool differ in age
		for _, p := range pools {
			n := stage.Node{Name: fmt.Sprintf("%s-%d", p.Name, i+1), Roles: []string{p.Name}, Zone: string("abc"[i%3]), Cached: cached}
			switch {
			case i >= 3 && p.Name != "worker":
				continue
			case p.Name != "master" && p.Name != "worker":
				n.Roles = append(n.Roles, "worker")
			}
			if p.Name != "worker" {
				n.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/" + p.Name, Effect: corev1.TaintEffectNoSchedule}}
			}
			s.nodes = append(s.nodes, n)
		}
	}
	return s
}

// TestFullSize makes three changes in a cluster of five pools, the second while the first rolls out: what `rollout watch` tells, and what the guard tells in Events, is what happens, node by node.
func TestFullSize(t *testing.T) {
	if !whole() {
		t.Log("told by make rollout-full, as it takes as long as ten stages")
		return
	}
	t.Parallel()
	told := begin(t, fullSize())
	ctx := t.Context()
	told.stage.Apply(ctx, strings.Replace(mcoPods[:strings.LastIndex(mcoPods, "---")], "nodeSelector: {node-role.kubernetes.io/outside: \"\"}",
		"nodeSelector: {node-role.kubernetes.io/master: \"\"}\n      tolerations: [{operator: Exists, effect: NoSchedule}]", 1))
	told.stage.Wait(ctx, "300 pods to run", func() (bool, error) {
		n, err := told.countRunning(ctx)
		return n == 300, err
	})
	guard := told.stage.InstallGuard(ctx, told.registries, "quay.io", mirrorHost)
	lacking := manifest(t, mirrorsOf("lacking", mirrorHost+"/lacking", sources))
	told.stage.Wait(ctx, "the API server to ask the guard", func() (bool, error) {
		out, err := told.stage.Kubectl(ctx, lacking, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "denied the request") && !stage.IsUndecided(out), nil
	})
	f := &fullSizeTelling{telling: told, guard: guard, merged: map[string]bool{}, changes: []mirrors.Object{tagSet(), digestSet("more", "quay.io/more"), otherTags()}}
	followImpatiently(t, told.stage.Kubeconfig, stallsAfter)
	f.watching = watchImpatiently(ctx, t, told.stage.Kubeconfig, watch.Options{StallAfter: stallsAfter, KeepGoing: true}, f.changes...)
	f.play(ctx)
	_, f.seen = f.watching.end(ctx)
	f.compareNodes()
	f.comparePools()
	f.compareEvents(ctx)
}

// A fullSizeTelling is the story of TestFullSize, with what was told of it.
type fullSizeTelling struct {
	*telling
	guard    string
	changes  []mirrors.Object
	targets  []map[string]string // what each pool was to have after each change
	watching *impatientWatch
	seen     []progress.Event
	// merged are the nodes whose pass to the first target was told as one with the next: they were taken
	// again before the watch looked.
	merged map[string]bool
}

// play makes the changes.
func (f *fullSizeTelling) play(ctx context.Context) {
	f.Helper()
	f.change(ctx, 0)
	f.stage.Wait(ctx, "two workers to be updated", func() (bool, error) {
		return len(f.doneWith(f.targets[0]["worker"])) >= 2, nil
	})
	f.change(ctx, 1)
	f.rests(ctx, stage.Rest{Waiting: names("gpu", 1, 3)})
	f.stage.Wait(ctx, "the paused pool to be told of", func() (bool, error) { return f.hasStalled(ctx, "gpu", f.changes[1]) })
	f.must(exec.CommandContext(ctx, f.guard, "rollout", "resume", "gpu", "--yes", "--kubeconfig", f.stage.Kubeconfig))
	f.rests(ctx, stage.Rest{})
	f.awaitEnd(ctx, 0)
	f.awaitEnd(ctx, 1)

	f.budget(ctx, "{minAvailable: 2}")
	f.change(ctx, 2)
	f.rests(ctx, stage.Rest{Stalled: []string{"infra-1"}, Waiting: []string{"infra-2", "infra-3"}})
	f.stage.Wait(ctx, "the stalled pool to be told of", func() (bool, error) { return f.hasStalled(ctx, "infra", f.changes[2]) })
	f.budget(ctx, "{minAvailable: 1}")
	f.rests(ctx, stage.Rest{})
}

func (f *fullSizeTelling) must(cmd *exec.Cmd) {
	f.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// change makes one of the changes, and waits until each pool is to have something else.
func (f *fullSizeTelling) change(ctx context.Context, i int) {
	f.Helper()
	before, targets := f.nodes.Configs(ctx), map[string]string{}
	f.make(ctx, applying(f.changes[i]))
	for _, pool := range slices.Sorted(maps.Keys(before)) {
		targets[pool] = f.stage.Rendered(ctx, pool, before[pool])
	}
	f.targets = append(f.targets, targets)
}

// budget sets that of the routers.
func (f *fullSizeTelling) budget(ctx context.Context, spec string) {
	f.Helper()
	f.nodes.Note(stage.Changed, "the routers' budget: "+spec)
	f.stage.Apply(ctx, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: router, namespace: app}, spec: "+
		strings.TrimSuffix(spec, "}")+", selector: {matchLabels: {app: router}}}}")
}

// rests waits until nothing more happens.
func (f *fullSizeTelling) rests(ctx context.Context, want stage.Rest) {
	f.Helper()
	rest := f.nodes.Await(ctx, nil)
	f.same("stalled", rest.Stalled, want.Stalled)
	f.same("waiting", rest.Waiting, want.Waiting)
	if f.Failed() {
		f.FailNow()
	}
}

func (t *telling) countRunning(ctx context.Context) (int, error) {
	var pods corev1.PodList
	err := t.stage.Client.List(ctx, &pods)
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	return len(running), err
}

// doneWith are the nodes that have got a config, in that order.
func (f *fullSizeTelling) doneWith(config string) []string {
	var nodes []string
	for _, e := range f.nodes.Events() {
		if e.Kind == stage.Done && e.Config == config {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// hasStalled reports whether both tellers have said that a pool stands still.
func (f *fullSizeTelling) hasStalled(ctx context.Context, pool string, o mirrors.Object) (bool, error) {
	watched := slices.ContainsFunc(f.watching.soFar(), func(e progress.Event) bool { return e.Type == progress.PoolStalled && e.Pool == pool })
	events, err := f.eventsOf(ctx, o)
	told := slices.ContainsFunc(events, func(e guardEvent) bool {
		return e.reason == rollouts.MirrorRolloutStalled && strings.Contains(e.note, "pool "+pool+" has not moved")
	})
	return watched && told, err
}

// A pass is the way of a node to a config: its start, whether it was drained, and its end.
type pass struct {
	drained bool
	// config is what the node got; "" where that was told as one that it then had to wait with.
	config string
	began  time.Time
}

// passes are those of each node as they were.
func (f *fullSizeTelling) passes() map[string][]pass {
	passes, open := map[string][]pass{}, map[string]pass{}
	for _, e := range f.nodes.Events() {
		p := open[e.Node]
		switch e.Kind {
		case stage.Taken:
			p = pass{config: e.Config, began: e.Time}
		case stage.DrainAsked:
			p.drained = true
		case stage.Done:
			passes[e.Node] = append(passes[e.Node], p)
		}
		open[e.Node] = p
	}
	return passes
}

// toldPasses are those that the watch told of.
func (f *fullSizeTelling) toldPasses() map[string][]pass {
	passes, open := map[string][]pass{}, map[string]*pass{}
	for _, e := range f.seen {
		switch e.Type {
		case progress.NodeTaken, progress.NodeDraining, progress.NodeDrained:
			if open[e.Node] == nil {
				open[e.Node] = &pass{began: e.Time}
			}
			open[e.Node].drained = open[e.Node].drained || e.Type != progress.NodeTaken
		case progress.NodeDone, progress.NodeWaiting:
			p := open[e.Node]
			if p == nil {
				f.Errorf("%s: %s without a start", e.Node, e.Type)
				continue
			}
			if e.Type == progress.NodeDone {
				p.config = e.Config
			}
			passes[e.Node] = append(passes[e.Node], *p)
			delete(open, e.Node)
		}
	}
	for node := range open {
		f.Errorf("%s: its end is not told", node)
	}
	return passes
}

// compareNodes compares what the watch told of each node.
func (f *fullSizeTelling) compareNodes() {
	f.Helper()
	was, told := f.passes(), f.toldPasses()
	for _, n := range f.story.nodes {
		want := slices.Clone(was[n.Name])
		first := f.targets[0][f.nodes.PoolOf(n.Name)]
		if len(want) == len(told[n.Name])+1 && want[0].config == first {
			f.merged[n.Name] = true
			want[1].drained = want[1].drained || want[0].drained
			want = want[1:]
		}
		for i := range min(len(want), len(told[n.Name])) {
			if told[n.Name][i].config == "" && want[i].config == first {
				want[i].config = "" // its pool had another target by then
			}
		}
		same := func(a, b pass) bool { return a.drained == b.drained && a.config == b.config }
		if !slices.EqualFunc(want, told[n.Name], same) {
			f.Errorf("%s: %+v, told was %+v", n.Name, was[n.Name], told[n.Name])
		}
	}
	f.compareOrder("drained", stage.DrainAsked, progress.NodeDraining)
	f.compareOrder("ended", stage.Done, progress.NodeDone, progress.NodeWaiting)
}

// compareOrder compares the order of what happened to the nodes of each pool.
func (f *fullSizeTelling) compareOrder(what string, kind stage.Kind, types ...progress.Type) {
	f.Helper()
	for _, pool := range f.stage.Pools() {
		var was, told passing
		for _, e := range f.nodes.Events() {
			merged := kind == stage.Done && f.merged[e.Node] && e.Config == f.targets[0][pool.Name]
			if e.Kind == kind && f.nodes.PoolOf(e.Node) == pool.Name && !merged {
				was.add(e.Node)
			}
		}
		for _, e := range f.seen {
			if slices.Contains(types, e.Type) && e.Pool == pool.Name {
				told.add(e.Node)
			}
		}
		if !sameButFor(atOnce(pool, len(f.nodesOf(pool.Name))), told, was) {
			f.Errorf("pool %s, %s: told was %q, it was %q", pool.Name, what, told, was)
		}
	}
}

// A passing is nodes that come by several times: "worker-1 for the 2nd time".
type passing []string

func (p *passing) add(node string) {
	times := 1
	for _, other := range *p {
		times += convert.Int(strings.HasPrefix(other, node+" "))
	}
	*p = append(*p, fmt.Sprintf("%s (%d)", node, times))
}

// comparePools compares what the watch told of each pool.
func (f *fullSizeTelling) comparePools() {
	f.Helper()
	for _, pool := range f.stage.Pools() {
		var targets, stalls []string
		var last progress.Event
		for _, e := range f.seen {
			if e.Pool != pool.Name {
				continue
			}
			last = e
			switch e.Type {
			case progress.PoolBegan, progress.PoolRetargeted:
				f.compareObjects(e, len(targets))
				targets = append(targets, e.Config)
			case progress.PoolStalled:
				stalls = append(stalls, e.Message)
			}
		}
		for i, config := range targets {
			if i >= len(f.targets) || config != f.targets[i][pool.Name] {
				f.Errorf("pool %s: the targets %q were told, %v had it", pool.Name, targets, f.targets)
			}
		}
		if want := len(f.nodesOf(pool.Name)); last.Config != f.targets[2][pool.Name] || last.Counts[progress.Done] != want || last.Counts.Total() != want {
			f.Errorf("pool %s: the last that was told is %+v", pool.Name, last)
		}
		cause, stalled := map[string]string{"gpu": "pool gpu is paused", "infra": "budget router allows no disruption"}[pool.Name]
		if stalled != (len(stalls) == 1) || stalled && !strings.Contains(stalls[0], cause) {
			f.Errorf("pool %s: stalls %q", pool.Name, stalls)
		}
	}
	if last := f.seen[len(f.seen)-1]; last.Type != "Reached" {
		f.Errorf("rollout watch ends with %+v", last)
	}
}

// compareObjects compares the objects that a target is said to come from. The second one comes from the
// first as well where a node of the pool never got to the first target.
func (f *fullSizeTelling) compareObjects(e progress.Event, target int) {
	f.Helper()
	if target >= len(f.changes) {
		return
	}
	if !slices.Contains(e.Objects, mirrors.NameOf(f.changes[target])) {
		f.Errorf("pool %s: target %d comes from %q", e.Pool, target, e.Objects)
	}
	left := len(f.doneWith(f.targets[0][e.Pool])) < len(f.nodesOf(e.Pool))
	if first := mirrors.NameOf(f.changes[0]); target == 1 && left && !slices.Contains(e.Objects, first) {
		f.Errorf("pool %s: target %d comes from %q, %s has not reached all nodes", e.Pool, target, e.Objects, first)
	}
}

// A guardEvent is an Event of the guard.
type guardEvent struct{ reason, note string }

// eventsOf returns the Events on an object about its rollout, the first first.
func (f *fullSizeTelling) eventsOf(ctx context.Context, o mirrors.Object) ([]guardEvent, error) {
	var list eventsv1.EventList
	if err := f.stage.Client.List(ctx, &list, client.InNamespace(events.Namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var of []guardEvent
	for _, e := range list.Items {
		if e.Regarding.Name == o.GetName() && e.ReportingController == "mirrorset-guard.io/rollouts" && e.ReportingInstance == impatient {
			of = append(of, guardEvent{e.Reason, e.Note})
		}
	}
	return of, nil
}

// awaitEnd waits until the guard has told that the rollout of a change has ended, and returns all
// that it has told of it.
func (f *fullSizeTelling) awaitEnd(ctx context.Context, change int) []guardEvent {
	f.Helper()
	var told []guardEvent
	f.stage.Wait(ctx, "the guard to tell that the rollout has ended", func() (bool, error) {
		var err error
		told, err = f.eventsOf(ctx, f.changes[change])
		return len(told) > 0 && told[len(told)-1].reason == rollouts.MirrorRolloutEnded, err
	})
	return told
}

// compareEvents compares what the guard told.
func (f *fullSizeTelling) compareEvents(ctx context.Context) {
	f.Helper()
	const began, stalled, resumed, ended = rollouts.MirrorRolloutBegan, rollouts.MirrorRolloutStalled, rollouts.MirrorRolloutResumed, rollouts.MirrorRolloutEnded
	for i, want := range [][]guardEvent{
		{{began, " gets "}, {stalled, "pool gpu has not moved"}, {resumed, "pool gpu moves again"}, {ended, ""}},
		{{began, " gets "}, {stalled, "pool gpu has not moved"}, {resumed, "pool gpu moves again"}, {ended, ""}},
		{{began, " gets "}, {stalled, "pool infra has not moved"}, {resumed, "pool infra moves again"}, {ended, ""}},
	} {
		told := f.awaitEnd(ctx, i)
		if !slices.EqualFunc(told, want, func(a, b guardEvent) bool { return a.reason == b.reason && strings.Contains(a.note, b.note) }) {
			f.Errorf("%s: the guard told %q", mirrors.NameOf(f.changes[i]), told)
		}
		for _, pool := range f.stage.Pools() {
			n := len(f.nodesOf(pool.Name))
			want := fmt.Sprintf("pool %s has %s on %d of %d nodes", pool.Name, f.targets[max(i, 1)][pool.Name], n, n)
			if note := told[len(told)-1].note; !strings.Contains(note, want) {
				f.Errorf("%s: %q lacks %q", mirrors.NameOf(f.changes[i]), note, want)
			}
		}
	}
}
