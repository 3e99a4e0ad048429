package progress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

var noon = pools.Noon

// A scene is a cluster with pools whose nodes are described by words: "1" or "1>2" for the
// rendered configs that a node has and is to have, then "drain" (asked for), "drained",
// "notready", "cordoned", "degraded" or "silent".
type scene struct {
	pools []*mcfgv1.MachineConfigPool
	nodes []*corev1.Node
}

// pool adds a pool that nodes go from config "1" to target, changed by words: "paused",
// "norender", "updated".
func (s *scene) pool(name, target string, words ...string) *scene {
	p := pools.Worker(target, words...)
	p.Name, p.Spec.NodeSelector.MatchLabels = name, map[string]string{"pool": name}
	if slices.Contains(words, "updated") {
		p.Status.Configuration.Name = target
	}
	s.pools = append(s.pools, p)
	return s
}

func (s *scene) node(pool, name, configs string, words ...string) *scene {
	has, wants, ok := strings.Cut(configs, ">")
	if !ok {
		wants = has
	}
	longer := map[string][]string{
		"drain": {"asked=drain-" + wants}, "drained": {"asked=drain-" + wants, "drained=drain-" + wants}, "cordoned": {"cordoned", "by=machine-config-controller"},
		"degraded": {"state=Degraded", "reason=no space left"}, "silent": {"new"}, "notready": {"notready"},
	}
	said := []string{"has=" + has, "wants=" + wants}
	if has != wants {
		said = append(said, "state=Working")
	}
	for _, word := range words {
		said = append(said, longer[word]...)
	}
	n := pools.Node(name, said...)
	n.Labels = map[string]string{"pool": pool}
	s.nodes = append(s.nodes, n)
	return s
}

// sight returns the view of a scene. Config 2 brings a mirror, config 3 an OS update besides.
func (s *scene) sight(at time.Time) Sight {
	conf := "unqualified-search-registries = ['docker.io']\n"
	rendered := func(name, conf, image string) *rollout.Rendered {
		return &rollout.Rendered{Name: name, OSImage: image, Files: rollout.Files{mirrors.RegistriesConfPath: []byte(conf)}}
	}
	mirrored := conf + pools.Shop
	set := pools.TagSet("")
	return Sight{
		Time: at, Mirrors: &set,
		Input: status.Input{
			Cluster:  rollout.Cluster{Pools: s.pools, Nodes: s.nodes},
			Rendered: map[string]*rollout.Rendered{"1": rendered("1", conf, "os:1"), "2": rendered("2", mirrored, "os:1"), "3": rendered("3", mirrored, "os:2")},
		},
	}
}

func lines(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s/%s %s %v\n", e.Type, e.Pool, e.Node, e.Message, e.Objects)
	}
	return strings.ReplaceAll(b.String(), " []\n", "\n")
}

// TestStory: what is said of a rollout, view by view.
func TestStory(t *testing.T) {
	tracker := NewTracker(0)
	for i, step := range []struct {
		why   string
		scene *scene
		want  string
	}{
		{"nothing is under way", new(scene).pool("worker", "1").node("worker", "a", "1").node("worker", "b", "1"), "PoolFound worker/ is updated: 2 nodes\n"},
		{"nothing happens", new(scene).pool("worker", "1").node("worker", "a", "1").node("worker", "b", "1"), ""},
		{
			"MCO renders", new(scene).pool("worker", "2").node("worker", "a", "1").node("worker", "b", "1"),
			"PoolBegan worker/ begins to get 2: registries.conf for quay.io/shop; a node drains and reloads CRI-O [ImageTagMirrorSet shop]\n",
		},
		{"a node is taken", new(scene).pool("worker", "2").node("worker", "a", "1>2").node("worker", "b", "1"), "NodeTaken worker/a is being updated\n"},
		{"it is drained", new(scene).pool("worker", "2").node("worker", "a", "1>2", "drain", "cordoned").node("worker", "b", "1"), "NodeDraining worker/a is being drained\n"},
		{"it has been", new(scene).pool("worker", "2").node("worker", "a", "1>2", "drained", "cordoned").node("worker", "b", "1"), "NodeDrained worker/a is drained and being updated\n"},
		{
			"the pool is paused", new(scene).pool("worker", "2", "paused").node("worker", "a", "2").node("worker", "b", "1"),
			"NodeDone worker/a is done\nPoolPaused worker/ is paused\n",
		},
		{"another change", new(scene).pool("worker", "3", "paused").node("worker", "a", "2").node("worker", "b", "1"), "PoolRetarget worker/ is to have 3 instead of 2 now: registries.conf for quay.io/shop; the OS image from \"os:1\" to \"os:2\"; a node drains and reboots [ImageTagMirrorSet shop]\n"},
		{"it goes on", new(scene).pool("worker", "3").node("worker", "a", "2>3", "drained", "cordoned", "notready").node("worker", "b", "1"), "NodeRebooting worker/a is rebooting\nPoolResumed worker/ is no longer paused\n"},
		{"a file was changed by hand", new(scene).pool("worker", "3").node("worker", "a", "3").node("worker", "b", "1>3", "degraded"), "NodeDone worker/a is done\nNodeDegraded worker/b is degraded: no space left\nPoolDegraded worker/ is degraded: node b: no space left\n"},
		{"a node is gone, and one joins", new(scene).pool("worker", "3").node("worker", "a", "3").node("worker", "c", "3"), "NodeLeft worker/b is gone\nNodeJoined worker/c is done\nPoolRecovered worker/ is no longer degraded\n"},
		{"the operator has counted", new(scene).pool("worker", "3", "updated").node("worker", "a", "3").node("worker", "c", "3"), "PoolUpdated worker/ is updated: all 2 nodes have 3\nEnded / No pool has a rollout under way any more.\n"},
		{"another pool takes a node over", new(scene).pool("worker", "3", "updated").pool("infra", "3", "updated").node("worker", "a", "3").node("infra", "c", "3"), "NodeLeft worker/c is in another pool now\nPoolFound infra/ is updated: 1 node\n"},
		{"and is gone", new(scene).pool("worker", "3", "updated").node("worker", "a", "3").node("worker", "c", "3"), "PoolDeleted infra/ is gone\nNodeJoined worker/c is done\n"},
		{"its daemon is gone", new(scene).pool("worker", "3", "updated").node("worker", "a", "3").node("worker", "c", "3", "silent"), "NodeSilent worker/c has not been reported on by its daemon\n"},
		{"no pools any more", new(scene), "PoolDeleted worker/ is gone\n"},
	} {
		got := lines(tracker.Observe(step.scene.sight(noon.Add(time.Duration(i) * time.Second))))
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
	if len(tracker.pools) != 0 {
		t.Error("a pool that is gone is remembered")
	}
}

// TestFound: a rollout that is under way already is told of as it is.
func TestFound(t *testing.T) {
	s := new(scene).pool("worker", "2", "norender=no").node("worker", "a", "2").node("worker", "b", "1>2", "drain", "cordoned").node("worker", "c", "1")
	tracker := NewTracker(0)
	got := lines(tracker.Observe(s.sight(noon)))
	if got != "PoolFound worker/ is degraded: 1 of 3 nodes have 2 [ImageTagMirrorSet shop]\nNodeFound worker/b is being drained\n" {
		t.Errorf("got %s", got)
	}
	p := tracker.Pools(noon.Add(time.Minute))[0]
	if !p.Active || !p.DegradedFirst || p.Unmoved != time.Minute || p.Counts.Total() != 3 {
		t.Errorf("got %+v", p)
	}
}

// blocked is a hold-up of a cause.
var blocked = causes.HoldUp{Pool: "worker", Node: "a", Chain: causes.Chain{Symptom: "node a is being drained", Links: []string{"pod shop/cart-1 is not evicted", "the budget allows none"}}}

func podsOn(node string, names ...string) rollout.Cluster {
	var c rollout.Cluster
	for _, name := range names {
		c.Pods = append(c.Pods, rollout.Pod{Namespace: "shop", Name: name, Node: node})
	}
	return c
}

// TestStall: when a rollout stalls, and when it does not. Each row is a drain of node a
// with diagnoses at minutes 5, 10 and so on.
func TestStall(t *testing.T) {
	found := func(f ...causes.HoldUp) func(int) causes.Diagnosis {
		return func(int) causes.Diagnosis { return causes.Diagnosis{HoldUps: f} }
	}
	same := func(int) rollout.Cluster { return podsOn("a", "cart-1", "cart-2") }
	unread := rollout.Cluster{Unknown: []string{"pods"}}
	other, unexplained := blocked, blocked
	other.Pool, unexplained.Unexplained = "infra", true
	draining := []string{"drain", "cordoned"}
	for _, tt := range []struct {
		why       string
		node      []string
		diagnosis func(minute int) causes.Diagnosis
		pods      func(minute int) rollout.Cluster
		want      int // the minute at which it stalls, 0 for never within the hour
		cause     string
	}{
		{"a budget", draining, found(blocked), same, 10, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none"},
		{"two findings", draining, found(unexplained, blocked), same, 10, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none (and 1 more finding)"},
		{"no cause is known", draining, found(), same, 30, "why is not known; its drains wait for pods (node/namespace/name): a/shop/cart-1, a/shop/cart-2"},
		{"a cause that is not explained", draining, found(unexplained), same, 30, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none"},
		{"a cause of another pool", draining, found(other), same, 30, "why is not known; its drains wait for pods (node/namespace/name): a/shop/cart-1, a/shop/cart-2"},
		{"a cause that comes and goes", draining, func(minute int) causes.Diagnosis {
			if minute%10 == 0 {
				return causes.Diagnosis{}
			}
			return causes.Diagnosis{HoldUps: []causes.HoldUp{blocked}}
		}, same, 30, "why is not known; its drains wait for pods (node/namespace/name): a/shop/cart-1, a/shop/cart-2"},
		{"pods are not known every other time", draining, found(blocked), func(minute int) rollout.Cluster {
			if minute%10 == 0 {
				return unread
			}
			return same(minute)
		}, 30, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none"},
		{"pods are never known", draining, found(blocked), func(int) rollout.Cluster { return unread }, 30, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none"},
		{"pods are not known, and one has left since", draining, found(blocked), func(minute int) rollout.Cluster {
			if minute%15 != 0 {
				return unread
			}
			return podsOn("a", fmt.Sprint(minute))
		}, 0, ""},
		{"a pod leaves now and then", draining, found(blocked), func(minute int) rollout.Cluster { return podsOn("a", fmt.Sprint(minute)) }, 0, ""},
		{"what came after the cordon leaves", draining, found(blocked), func(minute int) rollout.Cluster {
			c := podsOn("a", "cart-1", fmt.Sprint(minute))
			c.Pods[1].Created = noon.Add(time.Second)
			return c
		}, 10, "node a is being drained; pod shop/cart-1 is not evicted; the budget allows none"},
		{"a node that reboots is not ready", []string{"drained", "notready"}, found(blocked), same, 30, "nothing is known that holds it up"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			tracker, stalled, cause := NewTracker(0), 0, ""
			s := new(scene).pool("worker", "3").node("worker", "a", "1>3", tt.node...).node("worker", "b", "1")
			tracker.Observe(s.sight(noon))
			diagnoses := 0
			for minute := range 60 {
				now := noon.Add(time.Duration(minute) * time.Minute)
				tracker.Observe(s.sight(now))
				if !tracker.WantsDiagnosis(now) {
					continue
				}
				diagnoses++
				for _, e := range tracker.Diagnosed(tt.diagnosis(minute), tt.pods(minute), now) {
					if e.Type != PoolStalled || stalled != 0 {
						t.Errorf("at minute %d: %+v", minute, e)
					}
					stalled, cause = minute, tracker.Pools(now)[0].Stall.Cause
					if e.Seconds != int64(minute*60) || !strings.HasSuffix(e.Message, ": "+cause) {
						t.Errorf("got %+v", e)
					}
				}
			}
			if stalled != tt.want || cause != tt.cause {
				t.Errorf("stalled at minute %d: %s; want %d: %s", stalled, cause, tt.want, tt.cause)
			}
			if diagnoses > 12 {
				t.Errorf("%d diagnoses within an hour, want one in 5 minutes at most", diagnoses)
			}
		})
	}
}

// TestMoves: what ends a stall, and what does not.
func TestMoves(t *testing.T) {
	start := func() *scene {
		return new(scene).pool("worker", "2").node("worker", "a", "1>2", "drain", "cordoned").node("worker", "b", "1")
	}
	for _, tt := range []struct {
		why  string
		next *scene
		want string
	}{
		{"nothing", start(), ""},
		{"the node is drained", new(scene).pool("worker", "2").node("worker", "a", "1>2", "drained", "cordoned").node("worker", "b", "1"), "NodeDrained worker/a is drained and being updated\nPoolMoving worker/ moves again, after 11m\n"},
		{"the node goes back", new(scene).pool("worker", "2").node("worker", "a", "1").node("worker", "b", "1"), "NodeWaiting worker/a waits for its turn\n"},
		{"the node gives up", new(scene).pool("worker", "2").node("worker", "a", "1>2", "drain", "degraded").node("worker", "b", "1"), "NodeDegraded worker/a is degraded: no space left\nPoolDegraded worker/ is degraded: node a: no space left\n"},
		{"the node is deleted", new(scene).pool("worker", "2").node("worker", "b", "1"), "NodeLeft worker/a is gone\nPoolMoving worker/ moves again, after 11m\n"},
		{"another change", new(scene).pool("worker", "3").node("worker", "a", "1>2", "drain", "cordoned").node("worker", "b", "1"), "PoolRetarget worker/ is to have 3 instead of 2 now: registries.conf for quay.io/shop; the OS image from \"os:1\" to \"os:2\"; a node drains and reboots [ImageTagMirrorSet shop]\nPoolMoving worker/ moves again, after 11m\n"},
		{"it is taken back", new(scene).pool("worker", "1").node("worker", "a", "1").node("worker", "b", "1"), "NodeDone worker/a is done\nPoolUpdated worker/ is updated: all 2 nodes have 1\nEnded / No pool has a rollout under way any more.\n"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			tracker := NewTracker(0)
			tracker.Observe(start().sight(noon))
			for _, minute := range []time.Duration{5, 10} {
				tracker.Diagnosed(causes.Diagnosis{HoldUps: []causes.HoldUp{blocked}}, podsOn("a", "cart-1"), noon.Add(minute*time.Minute))
			}
			if tracker.Pools(noon)[0].Stall == nil {
				t.Fatal("it has not stalled")
			}
			events := tracker.Observe(tt.next.sight(noon.Add(11 * time.Minute)))
			if diff := cmp.Diff(tt.want, lines(events)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			moved := strings.Contains(tt.want, "PoolMoving") || strings.Contains(tt.want, "PoolUpdated")
			if stall := tracker.Pools(noon)[0].Stall; moved != (stall == nil) {
				t.Errorf("stall %+v", stall)
			}
		})
	}
}

// TestPausedRetarget: nodes of a paused pool wait for another config as they did for the one before.
func TestPausedRetarget(t *testing.T) {
	tracker := NewTracker(0)
	paused := func(target string) *scene {
		return new(scene).pool("worker", target, "paused").node("worker", "a", "1")
	}
	tracker.Observe(paused("2").sight(noon))
	for _, minute := range []time.Duration{5, 10} {
		tracker.Diagnosed(causes.Diagnosis{HoldUps: []causes.HoldUp{{Pool: "worker", Cause: causes.PoolPaused, Chain: causes.Chain{Symptom: "pool worker is paused"}}}}, rollout.Cluster{}, noon.Add(minute*time.Minute))
	}
	events := tracker.Observe(paused("3").sight(noon.Add(11 * time.Minute)))
	if got := lines(events); !strings.HasPrefix(got, "PoolRetarget") || strings.Contains(got, "PoolMoving") || tracker.Pools(noon)[0].Stall == nil {
		t.Errorf("%s%+v", got, tracker.Pools(noon)[0].Stall)
	}
}

// TestBlind: what could not be seen does not count as a stall.
func TestBlind(t *testing.T) {
	tracker := NewTracker(0)
	s := new(scene).pool("worker", "2").node("worker", "a", "1>2", "drain", "cordoned")
	tracker.Observe(s.sight(noon))
	tracker.Blind(time.Hour)
	if tracker.WantsDiagnosis(noon.Add(time.Hour + time.Minute)) {
		t.Error("an hour without an API server looks like an hour without movement")
	}
	if !tracker.WantsDiagnosis(noon.Add(time.Hour + 5*time.Minute)) {
		t.Error("five minutes after it, nothing has moved")
	}
}

// TestGarbage: whoever may change a node writes its annotations.
func TestGarbage(t *testing.T) {
	tracker := NewTracker(0)
	s := new(scene).pool("worker", "2").node("worker", "a", "1").node("worker", "b", "\x1b[31m>\n")
	s.nodes[1].Annotations[pools.Prefix+"state"] = strings.Repeat("x", 1<<16)
	s.nodes[1].Annotations[pools.Prefix+"reason"] = "\x1b[2J\u202e"
	tracker.Observe(s.sight(noon))
	s.nodes[1].Annotations[pools.Prefix+"state"] = "Degraded"
	for _, e := range tracker.Observe(s.sight(noon.Add(time.Second))) {
		if strings.ContainsAny(e.Message, "\x1b\n\u202e") {
			t.Errorf("got %q", e.Message)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 900 * time.Millisecond: "1s", 59 * time.Second: "59s", 61 * time.Second: "1m", time.Hour: "1h", 125 * time.Minute: "2h5m", 120*time.Minute + 4*time.Second: "2h",
	} {
		if got := Short(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

// BenchmarkObserve: a view of 5,000 nodes is taken after each change.
func BenchmarkObserve(b *testing.B) {
	s := new(scene).pool("worker", "2")
	for i := range 5000 {
		s.node("worker", fmt.Sprintf("node-%04d", i), "1")
	}
	tracker, sight := NewTracker(0), s.sight(noon)
	for b.Loop() {
		tracker.Observe(sight)
	}
}
