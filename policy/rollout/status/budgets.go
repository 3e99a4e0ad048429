package status

import (
	"cmp"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
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

// A refusal is the reason why a pod is not evicted.
type refusal struct {
	cause Cause
	// budget is the name of the one that refuses, second that of another one that covers the
	// pod; of is the former, where it refuses alone.
	budget, second string
	of             *budget
	why            string
	// passing says that it may be so for a moment; unworkable that nobody can tell how many pods
	// the budget is to have.
	passing, unworkable bool
	// answer is what the API server says, "" if it was not asked.
	answer string
	covers func(*rollout.Pod) bool
}

func (b budget) refusal(why string) refusal {
	return refusal{cause: CauseBudgetFull, budget: b.Name, of: &b, why: why, covers: b.covers}
}

// stale is the refusal of a budget whose status kube-controller-manager has not brought up to date.
func (b budget) stale(than string) refusal {
	r := b.refusal(fmt.Sprintf("the status of budget %s is older than %s, and kube-controller-manager, which keeps it up to date, does not do so", b.Name, than))
	r.cause, r.passing = CauseBudgetNotObserved, true
	return r
}

// unworkable is the refusal of a budget that allows no disruption whatever happens.
func (b budget) unworkable(why string) refusal {
	r := b.refusal(fmt.Sprintf("for budget %s kube-controller-manager cannot compute the expected number of pods: %s", b.Name, why))
	r.cause, r.unworkable = CauseBudgetNotObserved, true
	return r
}

// trouble is why kube-controller-manager cannot keep the status of b (failSafe in
// pkg/controller/disruption/disruption.go of k8s.io/kubernetes, which then allows no disruption),
// "" where it can.
func (b budget) trouble() string {
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return text.Line(cmp.Or(c.Message, "it does not say why"))
		}
	}
	return ""
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
	switch status := b.Status; {
	case len(covering) > 1:
		why := fmt.Sprintf("budgets %s cover it, and no pod of several budgets is evicted", strings.Join(names, " and "))
		return refusal{cause: CauseSeveralBudgets, budget: names[0], second: names[1], why: why, covers: b.covers}, true
	case !p.Ready && b.sparesUnready():
		return refusal{}, false
	case b.trouble() != "":
		return b.unworkable(b.trouble()), true
	case status.ObservedGeneration < b.Generation:
		return b.stale("its spec"), true
	case status.DisruptionsAllowed > 0:
		return refusal{}, false
	case status.CurrentHealthy > 0 && status.ExpectedPods == 0:
		return b.unworkable("no controller makes them"), true
	case status.CurrentHealthy > status.DesiredHealthy:
		return b.stale("the last eviction"), true
	default:
		return b.refusal(fmt.Sprintf("budget %s allows no disruption: %d of %d pods are healthy, and %d must be", b.Name, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)), true
	}
}

// sparesUnready reports whether a pod that is not ready is evicted all the same.
func (b budget) sparesUnready() bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}
