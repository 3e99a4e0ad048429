package simulation

import (
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A budget is a PodDisruptionBudget with the pods that it is about.
type budget struct {
	*policyv1.PodDisruptionBudget
	id   int
	pods []int32
	// desired is how many pods have to be ready; none can be evicted while no more are.
	desired int
	// never is why it allows no eviction whatever is ready, "" if that is not so.
	never string
	// always says that it lets go pods that are not ready.
	always bool
	// most is how many pods there can be of it, as far as is known.
	most int
	// drained is how many of its pods a drain evicts.
	drained int
}

func (b *budget) name() string { return b.Namespace + "/" + b.Name }

func (w *cluster) addBudgets() {
	sorted := slices.DeleteFunc(slices.Clone(w.in.Cluster.Budgets), func(b *policyv1.PodDisruptionBudget) bool { return b == nil })
	slices.SortStableFunc(sorted, func(a, b *policyv1.PodDisruptionBudget) int {
		return strings.Compare(a.Namespace+"\x00"+a.Name, b.Namespace+"\x00"+b.Name)
	})
	byClass := make([][]*budget, len(w.classes))
	for _, in := range sorted {
		selector, err := metav1.LabelSelectorAsSelector(in.Spec.Selector)
		if err != nil {
			continue // an eviction does not heed it (getPodDisruptionBudgets, eviction.go)
		}
		b := &budget{PodDisruptionBudget: in, id: len(w.budgets)}
		for _, s := range w.keys.matching(matcher{spaces: []string{in.Namespace}, selector: selector}) {
			byClass[s.id] = append(byClass[s.id], b)
		}
		w.budgets = append(w.budgets, b)
	}
	for _, s := range w.classes {
		s.budgets = byClass[s.id]
	}
	for i := range w.pods {
		p := &w.pods[i]
		for _, b := range p.podClass.budgets {
			b.pods = append(b.pods, int32(i))
			if !p.stays {
				b.drained++
			}
		}
	}
	for _, b := range w.budgets {
		w.count(b)
	}
}

// count restates getExpectedPodCount and updatePdbStatus of the disruption controller
// (pkg/controller/disruption). How many replicas the controllers of the pods have is in the
// budget's status; where that is not up to date, they are taken to have those that are there.
func (w *cluster) count(b *budget) {
	policy := b.Spec.UnhealthyPodEvictionPolicy
	b.always = policy != nil && *policy == policyv1.AlwaysAllow
	expected := 0
	for _, i := range b.pods {
		if p := &w.pods[i]; !p.isBare() && !p.guard {
			expected++
		}
	}
	if b.Status.ObservedGeneration >= b.Generation && b.Status.ExpectedPods > 0 {
		expected = int(b.Status.ExpectedPods)
	}
	b.most = max(expected, len(b.pods))
	var err error
	switch {
	case b.Spec.MaxUnavailable != nil:
		var most int
		most, err = intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, expected, true)
		b.desired = max(expected-most, 0)
	case b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.Int:
		b.desired, expected = int(b.Spec.MinAvailable.IntVal), len(b.pods)
	case b.Spec.MinAvailable != nil:
		b.desired, err = intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, expected, true)
	}
	failed := slices.IndexFunc(b.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == policyv1.DisruptionAllowedCondition && c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason
	})
	switch {
	case b.Spec.MaxUnavailable == nil && b.Spec.MinAvailable == nil:
		b.never = "it has neither minAvailable nor maxUnavailable"
	case err != nil:
		b.never = "its numbers are invalid: " + err.Error()
	case failed >= 0:
		b.never = "it cannot be counted: " + b.Status.Conditions[failed].Message
	case expected <= 0:
		b.never = "its pods have no controller that says how many there should be"
	}
}

// allows reports whether the eviction API lets go a pod (EvictionREST.Create, eviction.go of
// pkg/registry/core/pod/storage) while so many pods of the budget are ready.
func (b *budget) allows(state podState, ready int) bool {
	if state != healthy && (b.always || ready >= b.desired && b.desired > 0) {
		return true
	}
	return b.never == "" && ready > b.desired
}
