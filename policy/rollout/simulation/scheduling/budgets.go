package scheduling

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Budget is a budget of the cluster, with the pods that it is about.
type Budget struct {
	rollout.Budget
	ID   int
	Pods []int32
	// Required is how many pods have to be ready; none can be evicted while no more are.
	Required int
	// Never is why it allows no eviction whatever is ready, "" if that is not so.
	Never string
	// Most is how many pods it may have: those expected, or those that exist if more.
	Most int
	// Drained is how many of its pods a drain evicts.
	Drained int
}

// FullName is "namespace/name".
func (b *Budget) FullName() string { return b.Namespace + "/" + b.Name }

func (w *Cluster) addBudgets() {
	byClass := make([][]*Budget, len(w.Classes))
	for _, in := range rollout.NewBudgets(w.in.Cluster.Budgets) {
		b := &Budget{Budget: in, ID: len(w.Budgets)}
		for _, s := range w.keys.matching(matcher{spaces: []string{in.Namespace}, selector: in.Selector}) {
			byClass[s.ID] = append(byClass[s.ID], b)
		}
		w.Budgets = append(w.Budgets, b)
	}
	for _, s := range w.Classes {
		s.Budgets = byClass[s.ID]
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if w.Ask(1 + len(p.PodClass.Budgets)/20) {
			return
		}
		for _, b := range p.PodClass.Budgets {
			b.Pods = append(b.Pods, int32(i))
			if !p.Stays {
				b.Drained++
			}
		}
	}
	for _, b := range w.Budgets {
		w.count(b)
	}
}

// count works out how many pods of the budget have to be ready. How many replicas their controllers
// have is in its status; where that is not up to date, they are taken to have those that are there.
func (w *Cluster) count(b *Budget) {
	expected := 0
	for _, i := range b.Pods {
		if p := &w.Pods[i]; !p.IsBare() {
			expected++
		}
	}
	if b.Status.ObservedGeneration >= b.Generation && b.Expected() > 0 {
		expected = b.Expected()
	}
	b.Most = max(expected, len(b.Pods))
	b.Required, b.Never = b.Desired(expected, len(b.Pods))
}

// Allows reports whether the eviction API lets go a pod while so many pods of the budget are ready.
func (b *Budget) Allows(state PodState, ready int) bool {
	return state != Healthy && b.SparesUnready(ready, b.Required) || b.Never == "" && ready > b.Required
}

// TooManyBudgets is why a pod of more than one budget stays.
const TooManyBudgets = "the eviction API evicts no pod that has more than one budget"

// BudgetNames names the budgets of the pods.
func (s *PodClass) BudgetNames() []string {
	return convert.Each(s.Budgets, (*Budget).FullName)
}

// Reason says why the budget refuses where no pod is missing.
func (b *Budget) Reason(missing int) string {
	switch {
	case b.Never != "":
		return b.Never
	case missing > 0:
		return ""
	default:
		return b.AsksForAll()
	}
}

// AsksForAll says how many pods have to be ready, and how many there are.
func (b *Budget) AsksForAll() string {
	are := "are"
	if b.Most == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s to be ready, and there %s %s", text.Plural(b.Required, "pod has", "pods have"), are, text.Number(b.Most))
}
