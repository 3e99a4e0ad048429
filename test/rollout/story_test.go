package rollout

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// A story is a change of mirror objects that rolls out over a cluster of its own, with what
// comes of it.
type story struct {
	name string
	// why says what it shows.
	why   string
	setup stage.Setup
	nodes []stage.Node
	apps  []app
	// startOn are the nodes that apps start on, all if there are none; from then on they go
	// where the scheduler wants them.
	startOn []string
	// serves are the references that registries serve. Host away is out of reach once the apps
	// run, "" for none.
	serves []string
	away   string
	// before are the mirror objects in force when the story begins.
	before []mirrors.Object
	// pins are images that nodes are to hold once the apps run, by pool.
	pins map[string][]string
	// prepare does what else comes before the change.
	prepare func(context.Context, *stage.Nodes)
	change  change
	// later is a change that is made after something has happened to a node.
	later *change
	after stage.Kind

	// want is what comes of it, nil if only the simulation says.
	want *want
}

// change is an edit: objects that somebody applies and deletes.
type change struct{ apply, remove []mirrors.Object }

// want is the expected end of a story.
type want struct {
	// drained are nodes, in order within their pool, for the last change; updated those that
	// are done with it.
	drained, updated []string
	// stalled are the nodes whose drain does not end, waiting those that no pool chooses.
	stalled, waiting []string
	// blocking are the apps whose pods cannot be evicted at the end.
	blocking []string
	// cannotPull are the apps of which a pod could not be pulled.
	cannotPull []string
	// evicted are the apps of which a pod was evicted.
	evicted []string
	// rebooted are nodes, in order.
	rebooted []string
}

// A telling is a story that is being told.
type telling struct {
	*testing.T
	story
	stage      *stage.Stage
	registries *stage.Registries
	nodes      *stage.Nodes
	rest       stage.Rest
	configs    map[string]string // what each pool is to have at the end
	// result is that of the last simulation, and asked how often registries were asked since.
	result simulation.Result
	asked  int
	// ahead is by how much the simulation's clock is.
	ahead time.Duration
}

// tell plays a story and compares what happens with what is wanted and with what the
// simulation said before.
func tell(t *testing.T, s story) *telling {
	t.Helper()
	told := begin(t, s)
	ctx := t.Context()
	foreseen := told.foresee(ctx, s.change)
	before, asked := told.nodes.Configs(ctx), told.registries.Asked()
	told.make(ctx, s.change)
	if s.later != nil {
		told.await(ctx, s.after)
		before, asked = told.nodes.Configs(ctx), told.registries.Asked()
		foreseen = told.foresee(ctx, *s.later)
		told.make(ctx, *s.later)
	}
	told.rest = told.nodes.Await(ctx, before)
	told.configs, told.asked = told.nodes.Configs(ctx), told.registries.Asked()-asked
	if s.want != nil {
		told.check()
	}
	foreseen.compare()
	told.result = foreseen.result
	return told
}

// begin sets the scene.
func begin(t *testing.T, s story) *telling {
	t.Helper()
	told := &telling{T: t, story: s, stage: stage.New(t, s.setup), registries: stage.NewRegistries(t)}
	ctx := t.Context()
	told.registries.Push(s.serves...)
	told.makeBefore(ctx)
	told.nodes = told.stage.AddNodes(ctx, told.registries, s.nodes...)
	told.startApps(ctx)
	told.pinImages(ctx)
	if s.away != "" {
		told.registries.Front.Set(s.away, registries.Down)
	}
	if s.prepare != nil {
		s.prepare(ctx, told.nodes)
	}
	return told
}

// makeBefore applies what is in force before, and waits until that is what new nodes get.
func (t *telling) makeBefore(ctx context.Context) {
	t.Helper()
	if len(t.before) == 0 {
		return
	}
	bare := map[string]string{}
	for _, pool := range t.stage.Pools() {
		bare[pool.Name] = t.stage.Rendered(ctx, pool.Name, "")
	}
	for _, o := range t.before {
		t.apply(ctx, o)
	}
	for pool, config := range bare {
		t.stage.Rendered(ctx, pool, config)
	}
}

func (t *telling) startApps(ctx context.Context) {
	t.Helper()
	var others []string
	for _, node := range t.story.nodes {
		if len(t.startOn) > 0 && !slices.Contains(t.startOn, node.Name) {
			others = append(others, node.Name)
		}
	}
	t.nodes.Cordon(ctx, true, others...)
	t.stage.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: app}}")
	for _, a := range t.apps {
		t.stage.Apply(ctx, a.manifest())
	}
	t.stage.Wait(ctx, "the apps to run", func() (bool, error) { return t.running(ctx) })
	t.nodes.Cordon(ctx, false, others...)
	t.nodes.AwaitUpdated(ctx)
}

// running reports whether all pods run and the budgets know.
func (t *telling) running(ctx context.Context) (bool, error) {
	var pods corev1.PodList
	if err := t.stage.Client.List(ctx, &pods); err != nil {
		return false, err
	}
	total := 0
	for _, a := range t.apps {
		n, err := t.replicas(ctx, a)
		if err != nil || n == 0 {
			return false, err
		}
		total += n
	}
	if len(pods.Items) != total || slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }) {
		return false, nil
	}
	var budgets policyv1.PodDisruptionBudgetList
	err := t.stage.Client.List(ctx, &budgets)
	unaware := slices.ContainsFunc(budgets.Items, func(b policyv1.PodDisruptionBudget) bool {
		return b.Status.ObservedGeneration != b.Generation || b.Status.CurrentHealthy != b.Status.ExpectedPods || b.Status.ExpectedPods == 0
	})
	return !unaware, err
}

func (t *telling) replicas(ctx context.Context, a app) (int, error) {
	if a.kind != "DaemonSet" {
		return a.replicas, nil
	}
	var set appsv1.DaemonSet
	err := t.stage.Client.Get(ctx, client.ObjectKey{Namespace: "app", Name: a.name}, &set)
	return int(set.Status.DesiredNumberScheduled), err
}

// make makes a change.
func (t *telling) make(ctx context.Context, c change) {
	t.Helper()
	for _, o := range c.apply {
		t.nodes.Note(stage.Changed, "apply "+mirrors.NameOf(o))
		t.apply(ctx, o)
	}
	for _, o := range c.remove {
		t.nodes.Note(stage.Changed, "delete "+mirrors.NameOf(o))
		if err := t.stage.Client.Delete(ctx, any(o).(client.Object).DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
}

func (t *telling) apply(ctx context.Context, o mirrors.Object) {
	t.Helper()
	t.stage.Apply(ctx, manifest(t.T, o))
}

// manifest returns an object as people write it.
func manifest(t *testing.T, o mirrors.Object) string {
	t.Helper()
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: %s\n%s", mirrors.KindOf(o), data)
}

// await waits until something has happened to a node.
func (t *telling) await(ctx context.Context, kind stage.Kind) {
	t.Helper()
	t.stage.Wait(ctx, fmt.Sprintf("a node to be %q", kind), func() (bool, error) {
		return slices.ContainsFunc(t.sinceChange(), func(e stage.Event) bool { return e.Kind == kind }), nil
	})
}

// did returns the nodes that something happened to on their way to the last config of their
// pool, in order.
func (t *telling) did(kind stage.Kind) []string {
	var names []string
	for _, e := range t.sinceChange() {
		if e.Kind == kind && t.configs[t.nodes.PoolOf(e.Node)] == e.Config {
			names = append(names, e.Node)
		}
	}
	return names
}

// appsThat returns the apps that something happened to since the change, each once.
func (t *telling) appsThat(kind stage.Kind) []string {
	var names []string
	for _, e := range t.sinceChange() {
		if e.Kind == kind {
			names = append(names, e.App)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *telling) sinceChange() []stage.Event {
	events := t.nodes.Events()
	i := slices.IndexFunc(events, func(e stage.Event) bool { return e.Kind == stage.Changed })
	return events[max(i, 0):]
}

// check compares what happened with what is wanted.
func (t *telling) check() {
	t.Helper()
	for _, e := range t.sinceChange() {
		if e.Kind == stage.Trouble {
			t.Errorf("the stage: %s", e.Text)
		}
	}
	t.sameOrder("drained", t.did(stage.DrainAsked), t.want.drained)
	t.same("updated", t.did(stage.Done), t.want.updated)
	t.sameOrder("rebooted", t.did(stage.Rebooted), t.want.rebooted)
	t.same("stalled", t.rest.Stalled, t.want.stalled)
	t.same("waiting", t.rest.Waiting, t.want.waiting)
	t.same("apps that cannot be pulled", t.appsThat(stage.PullFailed), t.want.cannotPull)
	t.same("apps evicted", t.appsThat(stage.Evicted), t.want.evicted)
	t.same("apps that block", t.blocking(), t.want.blocking)
}

// blocking returns the apps whose pods cannot be evicted at the end.
func (t *telling) blocking() []string {
	var names []string
	for _, pod := range t.rest.Blocking {
		name, _ := strings.CutPrefix(pod, "app/")
		i := slices.IndexFunc(t.apps, func(a app) bool { return strings.HasPrefix(name, a.name+"-") })
		names = append(names, t.apps[i].name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *telling) same(what string, got, want []string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// sameOrder compares nodes in the order in which something happened to them, each pool by
// itself. Nodes that a pool takes at once are in no order among themselves.
func (t *telling) sameOrder(what string, got, want []string) {
	t.Helper()
	for _, pool := range t.stage.Pools() {
		in := func(names []string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return t.nodes.PoolOf(name) != pool.Name })
		}
		if got, want := in(got), in(want); !sameButFor(atOnce(pool, len(t.nodesOf(pool.Name))), got, want) {
			t.Errorf("%s in pool %s: %q, want %q", what, pool.Name, got, want)
		}
	}
}

// sameButFor reports whether two lists are the same but for the order of items that lie
// less than n apart.
func sameButFor(n int, a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, name := range a {
		if j := slices.Index(b, name); j < 0 || j-i >= n || i-j >= n {
			return false
		}
	}
	return true
}

func (t *telling) nodesOf(pool string) []string {
	var names []string
	for _, node := range t.story.nodes {
		if t.nodes.PoolOf(node.Name) == pool {
			names = append(names, node.Name)
		}
	}
	return names
}

// atOnce is how many of so many nodes a pool takes at once.
func atOnce(pool stage.Pool, nodes int) int {
	text, percent := strings.CutSuffix(pool.MaxUnavailable, "%")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	if percent {
		n = nodes * n / 100
	}
	return max(n, 1)
}
