package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// budgets are the budgets of a cluster, by namespace.
type budgets map[string][]rollout.Budget

func newBudgets(all []*policyv1.PodDisruptionBudget) budgets {
	of := budgets{}
	for _, b := range rollout.NewBudgets(all) {
		of[b.Namespace] = append(of[b.Namespace], b)
	}
	return of
}

// covering returns the budgets for which a pod counts.
func (of budgets) covering(p *rollout.Pod) []rollout.Budget {
	return slices.DeleteFunc(slices.Clone(of[p.Namespace]), func(b rollout.Budget) bool { return !b.Covers(p) })
}

// refusal is the reason why a pod is not evicted.
type refusal struct {
	cause Cause
	// budget is the name of the one that refuses, or of the first of several; of is the former, where it
	// refuses alone. Owned are those of all that have an owner.
	budget string
	of     *rollout.Budget
	owned  []rollout.Budget
	why    string
	// passing says that it may be so for a moment; unworkable that kube-controller-manager cannot
	// tell how many pods the budget is to have.
	passing, unworkable bool
	// answer is the API server's, "" if it was not asked.
	answer string
	covers func(*rollout.Pod) bool
}

func refusalBy(b rollout.Budget, why string) refusal {
	return refusal{cause: BudgetFull, budget: b.Name, of: &b, owned: owned(b), why: why, covers: b.Covers}
}

// owned returns those of all that have an owner.
func owned(all ...rollout.Budget) []rollout.Budget {
	return slices.DeleteFunc(all, func(b rollout.Budget) bool { return b.Maker() == "" })
}

// stale is the refusal of a budget whose status kube-controller-manager has not brought up to date.
func stale(b rollout.Budget, than string) refusal {
	r := refusalBy(b, fmt.Sprintf("the status of budget %s is older than %s, and kube-controller-manager, which keeps it up to date, does not do so", b.Name, than))
	r.cause, r.passing = BudgetNotObserved, true
	return r
}

// unworkable is the refusal of a budget that allows no disruption whatever happens.
func unworkable(b rollout.Budget, why string) refusal {
	r := refusalBy(b, fmt.Sprintf("for budget %s kube-controller-manager cannot compute the expected number of pods: %s", b.Name, why))
	r.cause, r.unworkable = BudgetNotObserved, true
	return r
}

// refuses restates the eviction API (pkg/registry/core/pod/storage/eviction.go in
// k8s.io/kubernetes) for a pod that is running: one that has not started is evicted whatever
// budgets say.
func (of budgets) refuses(p *rollout.Pod) (refusal, bool) {
	if !p.Started {
		return refusal{}, false
	}
	covering := of.covering(p)
	switch len(covering) {
	case 0:
		return refusal{}, false
	case 1:
		return refusalOf(covering[0], p)
	}
	names := convert.Each(covering, func(b rollout.Budget) string { return b.Name })
	why := fmt.Sprintf("budgets %s cover it, and no pod of several budgets is evicted", strings.Join(names, " and "))
	return refusal{cause: SeveralBudgets, budget: names[0], owned: owned(slices.Clone(covering)...), why: why, covers: covering[0].Covers}, true
}

func refusalOf(b rollout.Budget, p *rollout.Pod) (refusal, bool) {
	failure, failed := b.SyncFailure()
	switch status := b.Status; {
	case !p.Ready && b.SparesUnready(int(status.CurrentHealthy), int(status.DesiredHealthy)):
		return refusal{}, false
	case failed:
		return unworkable(b, text.Line(cmp.Or(failure, "it does not say why"))), true
	case status.ObservedGeneration < b.Generation:
		return stale(b, "its spec"), true
	case status.DisruptionsAllowed > 0:
		return refusal{}, false
	case status.CurrentHealthy > 0 && status.ExpectedPods == 0:
		return unworkable(b, "no controller makes them"), true
	case status.CurrentHealthy > status.DesiredHealthy:
		return stale(b, "the last eviction"), true
	default:
		return refusalBy(b, fmt.Sprintf("budget %s allows no disruption: %d of %d pods are healthy, and %d must be", b.Name, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)), true
	}
}
