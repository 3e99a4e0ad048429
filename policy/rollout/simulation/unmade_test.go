package simulation

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestUnmade: what is known of a StatefulSet and its pods, and what that makes of an evicted pod.
func TestUnmade(t *testing.T) {
	const scene0 = scene(three + "OrderedReady w3!unready,w1,w2 db image=works\nbudget db app=db max=2")
	const stalls = "w2's drain stalls: app/db-0 is not ready; the replacement of app/db-1 is made again when app/db-0 is ready (podManagementPolicy OrderedReady); budget app/db allows no eviction"
	for _, tt := range []struct {
		reason string
		change func(*rollout.Cluster)
		want   string // the worst course
	}{
		{"as it is", func(*rollout.Cluster) {}, stalls},
		{"ordinals are numbers", func(c *rollout.Cluster) { c.Pods[1].Name, c.Pods[0].Name = "db-10", "db-9" }, ""},
		{"names without an ordinal", func(c *rollout.Cluster) {
			for i, name := range []string{"x", "y-", "z-a"} {
				c.Pods[i].Name = name
			}
		}, "finishes"},
		{
			"all ready, and the first is not there", func(c *rollout.Cluster) { c.Pods = c.Pods[1:] },
			"w2's drain may stall: the replacement of app/db-1 may be made again only when app/db-0 is ready, which is not there; budget app/db allows no eviction",
		},
		{"the first has another number", func(c *rollout.Cluster) { c.Pods = c.Pods[1:]; c.Controllers[0].First = 1 }, "finishes"},
		{"another set of that name is parallel", func(c *rollout.Cluster) {
			c.Controllers = append(c.Controllers, rollout.Controller{Namespace: "other", Owner: c.Controllers[0].Owner, Parallel: true})
		}, stalls},
	} {
		c := scene0.cluster(t)
		tt.change(&c)
		in := inputFor(c)
		if tt.reason == "all ready, and the first is not there" || tt.reason == "the first has another number" {
			in.Cluster.Budgets[0].Spec.MaxUnavailable.IntVal = 1
		}
		got := Run(in)
		if tt.want == "" && len(got.Stalls) == 0 || tt.want != "" && said(got) != tt.want {
			t.Errorf("%s: got %s", tt.reason, said(got))
		}
		for _, s := range got.Stalls {
			if s.ByImage {
				t.Errorf("%s: put down to an image", tt.reason)
			}
		}
	}
}

// TestUnplaceable: what the scheduler says of a pod, and whether it is taken to have a node later on.
func TestUnplaceable(t *testing.T) {
	const none = "0/6 nodes are available: "
	for message, finishes := range map[string]bool{
		"": true,
		none + "1 node(s) were unschedulable, 2 Insufficient cpu, 3 node(s) had untolerated taint {a: b}. preemption: none.": true,
		none + "pod has unbound immediate PersistentVolumeClaims. preemption: none.":                                         false,
		none + "1 Insufficient cpu, 2 node(s) exceed max volume count.":                                                      false,
		none + "1 Insufficient cpu, 2 node(s) were unschedul…":                                                               false,
		"running PreBind plugin": false,
	} {
		in := scene(three + "ReplicaSet w1, web image=works\nbudget web app=web min=1").input(t)
		in.Cluster.Pods[1].Detail = message
		want := "w1's drain may stall: app/web-1 has no node (" + strings.TrimSuffix(strings.TrimSuffix(message, " preemption: none."), ".") + "); budget app/web allows no eviction"
		if got := said(Run(in)); finishes != (got == "finishes") || !finishes && got != want {
			t.Errorf("%s: got %s", message, got)
		}
	}
}
