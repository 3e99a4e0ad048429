package status

import (
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A budget is a PodDisruptionBudget with what it selects.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// covers reports whether a pod counts for b.
func (b budget) covers(p *rollout.Pod) bool {
	return p.Namespace == b.Namespace && p.Spec != nil && b.selector.Matches(labels.Set(p.Spec.Labels))
}

// budgets are those of a cluster, by namespace.
type budgets map[string][]budget

func newBudgets(all []*policyv1.PodDisruptionBudget) budgets {
	of := budgets{}
	for _, b := range all {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil { // else it selects nothing
			of[b.Namespace] = append(of[b.Namespace], budget{b, selector})
		}
	}
	return of
}

// A refusal is why a pod is not evicted.
type refusal struct {
	budget string
	why    string
	covers func(*rollout.Pod) bool
}

// refuses restates the eviction API (pkg/registry/core/pod/storage/eviction.go in
// k8s.io/kubernetes) for a pod that is running: one that has not started is evicted whatever
// budgets say.
func (of budgets) refuses(p *rollout.Pod) (refusal, bool) {
	var covering []budget
	var names []string
	for _, b := range of[p.Namespace] {
		if b.covers(p) {
			covering, names = append(covering, b), append(names, b.Name)
		}
	}
	if !p.Started || len(covering) == 0 {
		return refusal{}, false
	}
	b := covering[0]
	r := refusal{budget: b.Name, covers: b.covers}
	switch status := b.Status; {
	case len(covering) > 1:
		r.why = fmt.Sprintf("budgets %s cover it, and no pod of several budgets is evicted", strings.Join(names, " and "))
	case !p.Ready && b.sparesUnready():
		return refusal{}, false
	case status.ObservedGeneration < b.Generation:
		r.why = fmt.Sprintf("the status of budget %s is older than its spec", b.Name)
	case status.DisruptionsAllowed > 0:
		return refusal{}, false
	default:
		r.why = fmt.Sprintf("budget %s allows no disruption: %d of %d pods are healthy, and %d must be", b.Name, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)
	}
	return r, true
}

// sparesUnready reports whether a pod that is not ready is evicted all the same.
func (b budget) sparesUnready() bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}
