package simulation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestBadInput: what a cluster or a dump of one may hold, by whether the rollout is said to
// finish.
func TestBadInput(t *testing.T) {
	const two = "pool worker\nnode w1 worker\nnode w2 worker\nReplicaSet w1,w2 web image=works\n"
	budget := func(edit func(b *policyv1.PodDisruptionBudget)) func(*rollout.Cluster) {
		return func(c *rollout.Cluster) {
			b := makeBudget("web app=web max=0")
			edit(b)
			c.Budgets = append(c.Budgets, b)
		}
	}
	for _, tt := range []struct {
		name     string
		scene    scene
		edit     func(c *rollout.Cluster)
		finishes bool
	}{
		{"nothing at all", "", nil, true},
		{"no node", "pool worker\nReplicaSet gone web image=works\nbudget web app=web max=0", nil, true},
		{"a pool without nodes", "pool worker\npool gpu\nnode w1 worker", nil, true},
		{"a budget that matches nothing", two + "budget web app=none max=0", nil, true},
		{"a budget that matches everything", two + "budget web all max=0", nil, false},
		{"a nil selector matches nothing", two, budget(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }), true},
		{"an invalid selector is not heeded", two, budget(func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
		}), true},
		{"a budget in another namespace", two, budget(func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }), true},
		{"a budget without numbers", two, budget(func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = nil }), false},
		{"a nil budget", two, func(c *rollout.Cluster) { c.Budgets = append(c.Budgets, nil) }, true},
		{"a budget that cannot be counted", two, budget(func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MaxUnavailable.IntVal, b.Status.Conditions = 1, []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "x"}}
		}), false},
		{"replicas that are still to come", two + "budget web app=web max=1 expects=3", nil, false},
		{"a minimum of 0 %", two + "budget web app=web min=0%", nil, true},
		{"a minimum of 100 %", two + "budget web app=web min=100%", nil, false},
		{"a maximum of 0 %", two + "budget web app=web max=0%", nil, false},
		{"a maximum of 100 %", two + "budget web app=web max=100%", nil, true},
		{"a number that is none", two + "budget web app=web min=some", nil, false},
		{"a pod on a node that is not there", two + "ReplicaSet gone,w1 web2 image=works\nbudget web2 app=web2 max=1", nil, false},
		{"a nil spec", two, func(c *rollout.Cluster) { c.Pods[0].Spec = nil }, true},
		{"a node twice", two, func(c *rollout.Cluster) { c.Nodes = append(c.Nodes, c.Nodes[0]) }, true},
		{"a taint whose toleration compares numbers", "pool worker\nnode w1 worker\nnode w2 worker taint=x\nReplicaSet w1,w1 web image=works\nbudget web app=web max=1", func(c *rollout.Cluster) {
			c.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: "Gt", Value: "1"}}
		}, false},
		{"an affinity that cannot be read", "pool worker\nnode w1 worker\nnode w2 worker\nReplicaSet w1,w1 web image=works node=w2\nbudget web app=web max=1", func(c *rollout.Cluster) {
			c.Pods[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Operator = "Like"
		}, false},
		{"gates that nobody lifts", "pool worker\nnode w1 worker\nnode w2 worker\nReplicaSet w1,w2, web image=works gated\nbudget web app=web max=1", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.scene.cluster(t)
			if tt.edit != nil {
				tt.edit(&c)
			}
			got := Run(inputFor(c))
			if got.Finishes() != tt.finishes {
				t.Errorf("finishes: %t\n%s\n%s", got.Finishes(), lines(got.Stalls), lines(got.Steps))
			}
			for _, s := range got.Stalls {
				if s.ByImage && !strings.Contains(string(tt.scene), "fails") {
					t.Errorf("put down to an image: %s", s)
				}
			}
		})
	}
}

// TestStop: wherever it is cut short, the result says so, and nothing is asked again. It has not much to do for many pods that fit nowhere.
func TestStop(t *testing.T) {
	c := largeCluster(100, 20)
	c.Pods = append(c.Pods, makePods("ReplicaSet", "none with=nobody", make([]string, 2000)...)...)
	in := inputFor(c)
	asked := 0
	in.Stop = func() bool { asked++; return false }
	if got := Run(in); got.Partial || !got.Finishes() || asked < 10 || asked > 150 {
		t.Fatalf("partial: %t, asked %d times", got.Partial, asked)
	}
	total := asked
	for at := 1; at <= total; at += max(total/25, 1) {
		asked = 0
		in.Stop = func() bool { asked++; return asked >= at }
		got := Run(in)
		if !got.Partial || got.Finishes() {
			t.Errorf("stopped at %d of %d: partial: %t", at, total, got.Partial)
		}
		if asked != at {
			t.Errorf("stopped at %d, asked %d times", at, asked)
		}
	}
}

// TestDeterministic: the order of what comes in does not matter.
func TestDeterministic(t *testing.T) {
	text := func(in Input) string {
		got := Run(in)
		return fmt.Sprintf("%s\n%s\n%s", lines(got.Steps), lines(got.Stalls), lines(got.Obstacles))
	}
	c := largeCluster(12, 10)
	for i := range c.Pods {
		if i%7 == 0 {
			c.Pods[i].Spec.Containers[0].Image = "new-fails"
		}
	}
	want := text(inputFor(c))
	for range 5 {
		for i := range c.Pods {
			j := (i * 7) % len(c.Pods)
			c.Pods[i], c.Pods[j] = c.Pods[j], c.Pods[i]
		}
		for i := range c.Budgets {
			j := (i * 5) % len(c.Budgets)
			c.Budgets[i], c.Budgets[j] = c.Budgets[j], c.Budgets[i]
		}
		if got := text(inputFor(c)); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}
