package simulation

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// budget is a budget of the cluster, with the pods that it is about.
type budget struct {
	rollout.Budget
	id   int
	pods []int32
	// desired is how many pods have to be ready; none can be evicted while no more are.
	desired int
	// never is why it allows no eviction whatever is ready, "" if that is not so.
	never string
	// most is how many pods it may have: those expected, or those that exist if more.
	most int
	// drained is how many of its pods a drain evicts.
	drained int
}

func (b *budget) name() string { return b.Namespace + "/" + b.Name }

func (w *cluster) addBudgets() {
	byClass := make([][]*budget, len(w.classes))
	for _, in := range rollout.NewBudgets(w.in.Cluster.Budgets) {
		b := &budget{Budget: in, id: len(w.budgets)}
		for _, s := range w.keys.matching(matcher{spaces: []string{in.Namespace}, selector: in.Selector}) {
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

// count works out how many pods of the budget have to be ready. How many replicas their controllers
// have is in its status; where that is not up to date, they are taken to have those that are there.
func (w *cluster) count(b *budget) {
	expected := 0
	for _, i := range b.pods {
		if p := &w.pods[i]; !p.IsBare() {
			expected++
		}
	}
	if b.Status.ObservedGeneration >= b.Generation && b.Status.ExpectedPods > 0 {
		expected = int(b.Status.ExpectedPods)
	}
	b.most = max(expected, len(b.pods))
	b.desired, b.never = b.Desired(expected, len(b.pods))
}

// allows reports whether the eviction API lets go a pod while so many pods of the budget are ready.
func (b *budget) allows(state podState, ready int) bool {
	return state != healthy && b.SparesUnready(ready, b.desired) || b.never == "" && ready > b.desired
}

// tooManyBudgets is why a pod of more than one budget stays.
const tooManyBudgets = "the eviction API evicts no pod that has more than one budget"

// budgetNames names the budgets of the pods.
func (s *podClass) budgetNames() []string {
	return convert.Each(s.budgets, (*budget).name)
}

// reason says why the budget refuses where no pod is missing.
func (b *budget) reason(missing int) string {
	switch {
	case b.never != "":
		return b.never
	case missing > 0:
		return ""
	default:
		return b.asksForAll()
	}
}

// asksForAll says how many pods have to be ready, and how many there are.
func (b *budget) asksForAll() string {
	are := "are"
	if b.most == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s to be ready, and there %s %s", text.Plural(b.desired, "pod has", "pods have"), are, text.Number(b.most))
}
