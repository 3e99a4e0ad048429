package causes

import (
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// drained is node a, cordoned at noon for its drain, with a pod of no budget, at now.
func drained(now time.Time, change func(*rollout.Pod)) status.Input {
	in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1", "cordoned", "by=machine-config-controller"), pools.Node("b", "has=2", "wants=2"))
	pod := cart("1", "a")
	spec := *pod.Spec
	spec.GracePeriod, pod.Spec = 30*time.Second, &spec
	change(&pod)
	in.Cluster.Pods, in.Now = []rollout.Pod{pod}, now
	return in
}

// TestStandstill: what holds a drain up is found once nothing has happened for a minute, and a
// finalizer at once.
func TestStandstill(t *testing.T) {
	at := func(seconds int) time.Time { return pools.Noon.Add(time.Duration(seconds) * time.Second) }
	deleted := func(ends int, finalizers string) func(*rollout.Pod) {
		return func(p *rollout.Pod) { p.Deleted, p.Ends, p.Finalizers = true, at(ends), finalizers }
	}
	slow := func(p *rollout.Pod) { deleted(3600, "")(p); p.Spec.GracePeriod = time.Hour }
	for _, tt := range []struct {
		reason  string
		in      status.Input
		link    string // "" for no hold-up
		passing bool
	}{
		{"a finalizer, once the grace period is over", drained(at(31), deleted(30, "example.com/keep")), "the controllers that set them remove them: example.com/keep", true},
		{"a finalizer, and containers that have ended", drained(at(5), func(p *rollout.Pod) { deleted(30, "example.com/keep")(p); p.Ended = true }), "the controllers that set them remove them", true},
		{"a finalizer for a while", drained(at(91), deleted(30, "example.com/keep")), "the controllers that set them remove them", false},
		{"a pod may take its time", drained(at(20), deleted(30, "example.com/keep")), "", false},
		{"and its kubelet as well", drained(at(55), deleted(30, "")), "", false},
		{"but no longer", drained(at(91), deleted(30, "")), "was over at 2026-03-01 12:00 UTC", false},
		{"a long grace period", drained(at(61), slow), "pod shop/1 has until 13:00:00 UTC for it", true},
		{"that has just begun", drained(at(59), slow), "", false},
		{"a pod that nothing keeps", drained(at(61), func(*rollout.Pod) {}), "pods are still there, and no budget that is known keeps them: shop/1", true},
		{"a pod that nothing keeps, yet", drained(at(59), func(*rollout.Pod) {}), "", false},
		{"no pod at all", drained(at(61), func(p *rollout.Pod) { p.Node = "b" }), "no pod is left that it would evict", true},
		{"a pod that a drain leaves", drained(at(61), func(p *rollout.Pod) { p.Static = true }), "no pod is left that it would evict", true},
		{"a pod that the API server would evict", func() status.Input {
			in := drained(at(61), func(*rollout.Pod) {})
			in.Evidence.Evictions = map[status.PodName]status.Eviction{{Namespace: "shop", Name: "1"}: {Allowed: true}}
			return in
		}(), "the API server would let them go: shop/1", true},
	} {
		d := Diagnose(tt.in, asked(tt.in))
		if tt.link == "" {
			if len(d.HoldUps) > 0 {
				t.Errorf("%s: got %+v, want nothing", tt.reason, d.HoldUps)
			}
			continue
		}
		if len(d.HoldUps) != 1 || !strings.Contains(strings.Join(d.HoldUps[0].Chain.Lines(), "\n"), tt.link) || d.HoldUps[0].Passing != tt.passing {
			t.Errorf("%s: got %+v, want %q", tt.reason, d.HoldUps, tt.link)
		}
	}
}

// TestNotReady: a pod that is not ready is to be made anew on another node, once.
func TestNotReady(t *testing.T) {
	for _, tt := range []struct {
		reason, first string
		change        func(in *status.Input, unready *rollout.Pod)
	}{
		{"there is no other node", "oc -n shop delete pod 2", func(*status.Input, *rollout.Pod) {}},
		{"there is", "oc adm cordon b && { oc -n shop delete pod 2; oc adm uncordon b; }", func(in *status.Input, _ *rollout.Pod) {
			in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node("c"))
			in.Cluster.Pools[0].Status.MachineCount = 3
		}},
		{"its node is cordoned by somebody else", "oc -n shop delete pod 2", func(in *status.Input, _ *rollout.Pod) {
			in.Cluster.Nodes[1].Spec.Unschedulable, in.Cluster.Nodes = true, append(in.Cluster.Nodes, pools.Node("c", "has=2", "wants=2"))
			in.Cluster.Pools[0].Status.MachineCount = 3
		}},
		{"it was done already", "oc -n shop patch pdb cart", func(_ *status.Input, unready *rollout.Pod) { unready.Created = pools.Noon.Add(time.Second) }},
		{"another one has its volume", "oc -n shop patch pdb cart", func(in *status.Input, unready *rollout.Pod) {
			in.Cluster.Volumes = map[string]rollout.Volume{"shop/data": {OneNode: true}}
			in.Cluster.Pods[0].Spec.Claims, unready.Spec.Claims, unready.Started = []string{"data"}, []string{"data"}, false
		}},
	} {
		in := deadlock(nil, "unready")
		in.Now = pools.Noon.Add(time.Hour)
		in.Cluster.Nodes[0] = pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1", "cordoned", "by=machine-config-controller")
		tt.change(&in, &in.Cluster.Pods[1])
		f := Diagnose(in, asked(in)).HoldUps[0]
		if got := commands(f); f.Cause != PodNotReady || !strings.HasPrefix(got[0], tt.first) {
			t.Errorf("%s: got %s, %q", tt.reason, f.Cause, got)
		}
	}
}
