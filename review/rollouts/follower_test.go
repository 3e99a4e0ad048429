package rollouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// A fakeCluster is a WholeSource of pool worker with two nodes, which a test changes.
type fakeCluster struct {
	mu      sync.Mutex
	objects workloads.Objects
	set     mirrors.Set
	changes uint64
	fails   error // Mirrors
	asked   []string
}

func newFakeCluster() *fakeCluster {
	c := &fakeCluster{set: shopSet()}
	c.objects.Pools = []*mcfgv1.MachineConfigPool{pools.Worker("1")}
	c.become("1", "1", "1")
	return c
}

func shopSet() mirrors.Set {
	set := pools.TagSet("")
	set.Objects[0].SetUID("1")
	return set
}

// become gives the pool a target and its nodes configs: "1" or, on its way, "1>2" while being
// drained.
func (c *fakeCluster) become(target string, nodes ...string) {
	c.change(func() {
		pool := c.objects.Pools[0].DeepCopy()
		pool.Spec.Configuration.Name, pool.Status.Configuration.Name = target, "1"
		c.objects.Nodes = nil
		done := true
		for i, configs := range nodes {
			has, wants, moving := strings.Cut(configs, ">")
			n := pools.Node(fmt.Sprint("node-", i), "has="+has, "wants="+has)
			if moving {
				n = pools.Node(n.Name, "has="+has, "wants="+wants, "state=Working", "asked=drain-"+wants)
			}
			done = done && has == target
			c.objects.Nodes = append(c.objects.Nodes, n)
		}
		if done {
			pool.Status.Configuration.Name = target
		}
		c.objects.Pools = []*mcfgv1.MachineConfigPool{pool}
	})
}

func (c *fakeCluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.changes++
}

// ProgressObjects implements Source.
func (c *fakeCluster) ProgressObjects() workloads.Objects {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects
}

// RolloutObjects implements WholeSource.
func (c *fakeCluster) RolloutObjects() workloads.Objects { return c.ProgressObjects() }

// ProgressChanges implements Source.
func (c *fakeCluster) ProgressChanges() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Mirrors implements Source.
func (c *fakeCluster) Mirrors(context.Context) (mirrors.Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "mirrors")
	return c.set, c.fails
}

// Rendered implements renderedconfig.Source: config 2 has the entry of shop.
func (c *fakeCluster) Rendered(_ context.Context, name string) (*rollout.Rendered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, name)
	conf := "unqualified-search-registries = ['registry.access.redhat.com', 'docker.io']\n"
	switch name {
	case "1":
	case "2":
		conf += "[[registry]]\nlocation = \"quay.io/shop\"\n[[registry.mirror]]\nlocation = \"mirror.example.com/shop\"\npull-from-mirror = \"tag-only\"\n"
	default:
		return nil, rollout.ErrGone
	}
	return &rollout.Rendered{Name: name, Files: rollout.Files{mirrors.RegistriesConfPath: []byte(conf)}}, nil
}

// A following is a Follower that runs in a bubble.
type following struct {
	cluster *fakeCluster
	reports []string
	log     []string
	fails   error // Report
	// differences are what was told of targets.
	differences []string
	stop        func()
	metrics     *prometheus.Registry
}

func follow(t *testing.T, budget *watchloop.Budget) *following {
	t.Helper()
	f := &following{cluster: newFakeCluster(), metrics: prometheus.NewRegistry()}
	log := funcr.New(func(_, args string) { f.locked(func() { f.log = append(f.log, args) }) }, funcr.Options{})
	follower, err := NewFollower(Options{
		Source: f.cluster, StallAfter: 10 * time.Minute, Metrics: f.metrics,
		Differs: func(d verify.TargetDifference) {
			f.locked(func() { f.differences = append(f.differences, d.String()) })
		},
		Outlet: watchloop.Outlet{Reporter: f.report, Budget: budget, Log: log}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.run(t, follower)
	return f
}

func (f *following) report(_ context.Context, r watchloop.Report) (err error) {
	f.locked(func() {
		if err = f.fails; err == nil {
			f.reports = append(f.reports, fmt.Sprintf("%s %s: %s", r.Reason, r.Name(), r.Note))
			if r.Warning != (r.Reason == MirrorRolloutStalled) {
				f.reports = append(f.reports, "as an Event of another type")
			}
		}
	})
	return err
}

func (f *following) run(t *testing.T, follower *Follower) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		follower.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	synctest.Wait()
}

// pass lets time pass, and returns what was reported meanwhile.
func (f *following) pass(d time.Duration) (reports string) {
	f.locked(func() { f.reports = nil })
	time.Sleep(d)
	synctest.Wait()
	f.locked(func() { reports = strings.Join(f.reports, "\n") })
	return reports
}

// locked does something that the Follower must not see half done.
func (f *following) locked(do func()) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	do()
}

const began = "MirrorRolloutBegan ImageTagMirrorSet shop: pool worker gets 2: registries.conf for quay.io/shop; a node drains and reloads CRI-O, 1 at a time"

// TestFollower goes through what may become of a rollout.
func TestFollower(t *testing.T) {
	for _, tt := range []struct {
		why  string
		test func(*testing.T, *following)
	}{
		{"a rollout", func(t *testing.T, f *following) {
			f.wants(t, "nothing is under way", time.Hour, "")
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "it begins", 10*time.Second, began)
			f.wants(t, "nothing moves", 20*time.Minute, "")
			f.wants(t, "for half an hour", 11*time.Minute, "MirrorRolloutStalled ImageTagMirrorSet shop: pool worker has not moved for 30m: nothing is known that holds it up")
			f.wantsGauges(t, map[string]float64{"active": 1, "stalled": 1, "following": 1})
			f.cluster.become("2", "2", "1")
			f.wants(t, "a node is done", 10*time.Second, "MirrorRolloutResumed ImageTagMirrorSet shop: pool worker moves again: 0 of 0 nodes are done, the rest takes 5 to 15 minutes")
			f.wantsGauges(t, map[string]float64{"active": 1, "stalled": 0, "following": 1})
			f.cluster.become("2", "2", "2")
			f.wants(t, "all are", 10*time.Second, "MirrorRolloutEnded ImageTagMirrorSet shop: after 31m, pool worker has 2 on 2 of 2 nodes")
			f.wants(t, "nothing is under way", time.Hour, "")
		}},
		{"a rollout that is no mirror change's", func(t *testing.T, f *following) {
			f.cluster.become("3", "1>3", "1") // which cannot be read
			f.wants(t, "what is in it is not known", time.Hour, "")
		}},
		{"an object that is deleted on the way", func(t *testing.T, f *following) {
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "it begins", 10*time.Second, began)
			f.cluster.change(func() { f.cluster.set = mirrors.Set{} })
			f.cluster.become("1", "2", "1")
			f.wants(t, "the entry goes away again, and has no object", 10*time.Second, "MirrorRolloutBegan the mirror configuration: pool worker gets 1: registries.conf for quay.io/shop; a node drains and reloads CRI-O, 1 at a time")
		}},
		{"an API server that does not take Events", func(t *testing.T, f *following) {
			f.locked(func() { f.fails = errors.New("no") })
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "it cannot be said", time.Minute, "")
			f.locked(func() { f.fails = nil })
			f.wants(t, "it is tried again", time.Minute, began)
		}},
		{"mirror objects that cannot be read", func(t *testing.T, f *following) {
			f.cluster.change(func() { f.cluster.fails = errors.New("no") })
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "whose rollout it is is not known", time.Minute, "")
			f.cluster.change(func() { f.cluster.fails = nil })
			f.wants(t, "it is asked again", time.Minute, began)
		}},
		{"no pools", func(t *testing.T, f *following) {
			f.locked(func() { f.log = nil })
			f.cluster.change(func() { f.cluster.objects = workloads.Objects{} })
			f.wants(t, "no MCO", time.Hour, "")
			if len(f.log) != 1 || !strings.Contains(f.log[0], "no MachineConfigPools") {
				t.Errorf("logged %q, want that there are no pools, once", f.log)
			}
		}},
		{"nodes that are out of date", func(t *testing.T, f *following) {
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "it begins", 10*time.Second, began)
			f.cluster.change(func() { f.cluster.objects.Unknown = []string{"nodes"} })
			f.wants(t, "nothing is known", 2*time.Hour, "")
			f.cluster.change(func() { f.cluster.objects.Unknown = nil })
			f.wants(t, "which is no stall", 25*time.Minute, "")
		}},
		{"a fault", func(t *testing.T, f *following) {
			var pools []*mcfgv1.MachineConfigPool
			f.locked(func() { pools = f.cluster.objects.Pools })
			f.cluster.change(func() { f.cluster.objects.Pools = []*mcfgv1.MachineConfigPool{nil} })
			f.wants(t, "it panics", time.Minute, "")
			f.cluster.change(func() { f.cluster.objects.Pools = pools })
			f.cluster.become("2", "1>2", "1")
			f.wants(t, "and goes on", time.Minute, began)
		}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, watchloop.NewBudget())
				defer f.stop()
				tt.test(t, f)
			})
		})
	}
}

func (f *following) wants(t *testing.T, why string, d time.Duration, want string) {
	t.Helper()
	if got := f.pass(d); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", why, got, want)
	}
}

// wantsGauges compares metrics of one series.
func (f *following) wantsGauges(t *testing.T, want map[string]float64) {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families {
		name := strings.TrimPrefix(m.GetName(), "mirrorset_guard_rollout_")
		if n, is := want[name]; is && m.GetMetric()[0].GetGauge().GetValue() != n {
			t.Errorf("%s is %s, want %v", name, m.GetMetric(), n)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}

// TestFollowerComparesTargets: that a pool is to get what no object asks for is told before a node has it,
// once, and not of what MCO is about to render.
func TestFollowerComparesTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, watchloop.NewBudget())
		defer f.stop()
		wants := func(why string, d time.Duration, want ...string) {
			t.Helper()
			f.locked(func() { f.differences = nil })
			f.pass(d)
			if !slices.Equal(f.differences, want) {
				t.Errorf("%s: told %q, want %q", why, f.differences, want)
			}
		}
		const lacks = "MachineConfigPool worker is to get 1, which is not what mirror objects and MachineConfigs ask for: quay.io/shop: rendered is no entry, asked for is mirror mirror.example.com/shop (tags)"
		wants("MCO may be about to render", rendersWithin/2)
		f.cluster.become("2", "1", "1")
		wants("it has", time.Hour)
		f.cluster.change(func() { f.cluster.set = mirrors.Set{} })
		f.cluster.become("1", "1", "1")
		wants("the object was deleted, and then rendered", time.Hour)
		f.cluster.change(func() { f.cluster.set = shopSet() })
		wants("pools have no new target", time.Hour) // which rollout status and verify say
		f.cluster.become("2", "1", "1")
		wants("rendered late", time.Hour)
		f.cluster.become("1", "1", "1")
		wants("MCO, or somebody else, goes back", 2*rendersWithin, lacks)
		wants("it is told once", time.Hour)
		f.cluster.change(func() { f.cluster.fails = errors.New("no") })
		f.cluster.become("2", "1", "1")
		f.cluster.become("1", "1", "1")
		wants("it is not known what is asked for", time.Hour)
	})
}

// TestFollowerAsksLittle: without news it asks for nothing, however often nodes report, and of a config that there is not
// ever more rarely.
func TestFollowerAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, watchloop.NewBudget())
		defer f.stop()
		f.cluster.become("9", "1", "1")
		f.pass(time.Minute)
		f.locked(func() { f.cluster.asked = nil })
		for range 300 {
			f.cluster.change(func() {})
			f.pass(time.Second)
		}
		f.pass(time.Hour)
		if n := len(f.cluster.asked); n > 20 || slices.Contains(f.cluster.asked, "1") || slices.Contains(f.cluster.asked, "mirrors") {
			t.Errorf("asked for %q within an hour", f.cluster.asked)
		}
	})
}

// TestFollowerBudget: what a budget holds back is said later, if it is still so.
func TestFollowerBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := watchloop.NewBudget()
		f := follow(t, budget)
		defer f.stop()
		for budget.Allow(f.cluster.set.Objects[0]) { // another has reported
		}
		f.cluster.become("2", "1>2", "1")
		f.wants(t, "it begins, and the budget is spent", time.Minute, "")
		f.cluster.become("1", "1", "1")
		f.wants(t, "it was taken back meanwhile", time.Hour, "")
		for budget.Allow(f.cluster.set.Objects[0]) { // another has reported
		}
		f.cluster.become("2", "1>2", "1")
		f.wants(t, "it begins once more", time.Minute, "")
		f.wants(t, "and is said when there is room", 10*time.Minute, began)
	})
}

// TestFollowerLeads: a new leader reports what is under way, and a former one says nothing.
func TestFollowerLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, watchloop.NewBudget())
		f.cluster.become("2", "1>2", "1")
		f.wants(t, "it begins", 10*time.Second, began)
		f.stop()
		f.cluster.become("2", "2", "2")
		f.wants(t, "it does not lead", time.Hour, "")
		f.wantsGauges(t, map[string]float64{"following": 0})
		families, err := f.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families {
			if name := m.GetName(); strings.HasPrefix(name, "mirrorset_guard_rollout_") && !strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "following") {
				t.Errorf("%s is there without a leader", name)
			}
		}
	})
}
