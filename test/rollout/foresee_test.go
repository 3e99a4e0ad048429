package rollout

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// foresight is the forecast of the guard for a change, before it is made.
type foresight struct {
	*telling
	cluster  rollout.Cluster
	forecast rollout.Forecast
	result   simulation.Result
	pull     func(image, namespace, pool string, updated bool) rollout.Pull
}

// foresee simulates a change, with what the guard's inventory reads from the API server now
// and by what the registries serve.
func (t *telling) foresee(ctx context.Context, c change) foresight {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	inventory, err := cluster.New(t.stage.Config, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- inventory.Run(ctx) }()
	if err := inventory.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := inventory.Mirrors(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := foresight{telling: t, cluster: inventory.Rollout()}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	after := c.edit().Apply(before)
	step := rollout.Step{Before: before, After: after}
	f.forecast = rollout.NewForecast(f.cluster, step.Decisions(f.cluster.Conditions()))
	f.pull = t.pulls(before, after)
	f.result = simulation.Run(simulation.Input{Cluster: f.cluster, Forecast: f.forecast, Pull: f.pull, Now: time.Now().Add(t.ahead)})
	if f.result.Partial {
		t.Error("the simulation was cut short")
	}
	return f
}

func (c change) edit() mirrors.Edit {
	var edits []mirrors.Edit
	for _, o := range c.apply {
		edits = append(edits, mirrors.Put(o))
	}
	for _, o := range c.remove {
		edits = append(edits, mirrors.Delete(o))
	}
	return mirrors.Join(edits...)
}

// pulls says whether a registry that is asked for an image serves it.
func (t *telling) pulls(before, after mirrors.Set) func(image, namespace, pool string, updated bool) rollout.Pull {
	return func(image, namespace, pool string, updated bool) rollout.Pull {
		set := before
		if updated {
			set = after
		}
		table, err := mirrors.Resolve(set.At(pool))
		if err != nil {
			t.Fatal(err)
		}
		route, err := table.Route(image, namespace)
		if err != nil {
			t.Fatal(err)
		}
		served := slices.ContainsFunc(route.Open(), func(l mirrors.Location) bool {
			return slices.Contains(t.serves, l.Ref) && (t.away == "" || !strings.HasPrefix(l.Ref, t.away+"/"))
		})
		if served && route.Err == nil && route.Refused == "" {
			return rollout.PullWorks
		}
		return rollout.PullFails
	}
}

// compare holds what was foreseen to what happened.
func (f foresight) compare() {
	f.Helper()
	f.Logf("foreseen: %q", f.result.Stalls)
	for _, pool := range f.forecast.Pools {
		f.comparePool(pool)
	}
	for _, node := range f.rest.Stalled {
		f.compareStall(node)
	}
	if f.later == nil {
		f.comparePulls()
	}
	if len(f.rest.Stalled) > 0 && len(f.result.Stalls) == 0 {
		f.Errorf("%q stall, and at worst nothing does", f.rest.Stalled)
	}
	if f.Failed() {
		for _, step := range f.result.Steps {
			f.Logf("    %s", step)
		}
	}
}

// comparePool compares which nodes of a pool are taken and drained, in which order, and which
// pods leave them.
func (f foresight) comparePool(pool rollout.Pool) {
	f.Helper()
	var order []string
	for _, node := range pool.Nodes {
		order = append(order, node.Name)
	}
	taken := f.in(pool, stage.Taken)
	if pool.Part != rollout.Takes {
		if len(taken) > 0 {
			f.Errorf("pool %s takes %q, and was to take nothing: %s %s", pool.Name, taken, pool.Part, pool.Why)
		}
		return
	}
	if len(taken) > len(order) || !sameButFor(pool.AtOnce, taken, order[:len(taken)]) {
		f.Errorf("pool %s takes %q, and was to take %q", pool.Name, taken, order)
	}
	drained := 0
	if pool.Decision.Drains {
		drained = len(taken)
	}
	if got := f.in(pool, stage.DrainAsked); len(got) != drained {
		f.Errorf("pool %s drains %q of %q, and was to drain %d", pool.Name, got, taken, drained)
	}
	for i, step := range steps(f.result.Steps, pool.Name) {
		f.compareStep(step, pool, i < len(taken))
	}
}

// ending is what the simulation says of a pool that takes the change.
func (f foresight) ending(pool string) string {
	waits := slices.ContainsFunc(f.forecast.Pools, func(p rollout.Pool) bool {
		return p.Name == pool && (p.Part == rollout.Stopped || slices.ContainsFunc(p.Nodes, rollout.Node.IsSkipped))
	})
	switch {
	case slices.ContainsFunc(f.result.Stalls, func(s simulation.Stall) bool { return s.Pool == pool }):
		return mayStall
	case waits:
		return someWait
	default:
		return finishes
	}
}

// What the simulation says of a pool.
const mayStall, someWait, finishes = "may stall", "waits for a node", "finishes"

// in returns the nodes of a pool that something happened to.
func (f foresight) in(pool rollout.Pool, kind stage.Kind) []string {
	return slices.DeleteFunc(f.did(kind), func(name string) bool { return f.nodes.PoolOf(name) != pool.Name })
}

func steps(all []simulation.Step, pool string) []simulation.Step {
	return slices.DeleteFunc(slices.Clone(all), func(s simulation.Step) bool { return s.Pool != pool })
}

// compareStep compares a step with what happened to that node. The pods that were there
// before the change leave it then, and at no other time; which others do depends on where the
// scheduler sent them.
func (f foresight) compareStep(step simulation.Step, pool rollout.Pool, taken bool) {
	f.Helper()
	if step.Drained != pool.Decision.Drains {
		f.Errorf("step %q is drained: %t, and the decision says %t", step, step.Drained, pool.Decision.Drains)
	}
	if !taken || !slices.Contains(f.in(pool, stage.Done), step.Node) || !step.Updated {
		return
	}
	var foreseen, left []string
	for _, pod := range f.cluster.Pods {
		name := pod.Namespace + "/" + pod.Name
		if pod.Node != step.Node || pod.Deleted { // which an earlier change has evicted
			continue
		}
		if slices.ContainsFunc(step.Moves, func(m simulation.Move) bool { return m.Pod == name }) {
			foreseen = append(foreseen, name)
		}
		if slices.ContainsFunc(f.sinceChange(), func(e stage.Event) bool { return e.Kind == stage.Evicted && e.Pod == name }) {
			left = append(left, name)
		}
	}
	f.same("pods that leave "+step.Node, left, foreseen)
}

// compareStall holds a drain that does not end to those foreseen at worst: it is one of them,
// for that image and that budget. Where the scheduler had a choice, it may be another node of
// the pool.
func (f foresight) compareStall(node string) {
	f.Helper()
	pool := f.nodes.PoolOf(node)
	i := slices.IndexFunc(f.result.Stalls, func(s simulation.Stall) bool { return s.Node == node })
	if i < 0 && f.want == nil {
		i = slices.IndexFunc(f.result.Stalls, func(s simulation.Stall) bool { return s.Pool == pool })
	}
	if i < 0 {
		f.Errorf("%s stalls, and was not to: %q", node, f.result.Stalls)
		return
	}
	stall := f.result.Stalls[i]
	for _, budget := range stall.Budgets {
		if app := strings.TrimPrefix(budget, "app/"); !slices.Contains(f.blocking(), app) {
			f.Errorf("%s stalls by %q, and was to by budget %s", node, f.blocking(), budget)
		}
	}
	failed := slices.ContainsFunc(f.sinceChange(), func(e stage.Event) bool {
		return e.Kind == stage.PullFailed && slices.Contains(stall.Budgets, "app/"+e.App) && (stall.Image == "" || strings.HasPrefix(e.Text, stall.Image+":"))
	})
	if stall.ByImage != failed {
		f.Errorf("%s stalls for an image: %t, and was to: %t, for %q", node, failed, stall.ByImage, stall.Image)
	}
}

// comparePulls holds what the kubelets pulled to what the simulation took for granted: an image
// that could not be pulled is one that the node's route does not serve, and one that each
// start asks for and that was pulled is one that it serves.
func (f foresight) comparePulls() {
	f.Helper()
	updated := map[string]bool{}
	for _, e := range f.sinceChange() {
		if e.Kind == stage.Written {
			updated[e.Node] = true
		}
		if e.Kind != stage.PullFailed && e.Kind != stage.Runs {
			continue
		}
		i := slices.IndexFunc(f.apps, func(a app) bool { return a.name == e.App })
		pull := f.pull(f.apps[i].image, "app", f.nodes.PoolOf(e.Node), updated[e.Node])
		if e.Kind == stage.PullFailed && pull != rollout.PullFails || e.Kind == stage.Runs && f.apps[i].always && pull != rollout.PullWorks {
			f.Errorf("%s (updated: %t), and the route says %d", e, updated[e.Node], pull)
		}
	}
}
