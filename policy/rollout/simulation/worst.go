package simulation

import (
	"slices"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// worst plays the rollout with choices of the scheduler that do harm, and returns its steps and its stalls, with those that
// cannot be excluded.
func worst(w *scheduling.Cluster) ([]Step, []Stall) {
	v := scheduling.Assumption{Images: w.Images}
	prover := proof.New(w)
	blockedBudgets := prover.BlockedBudgets(v)
	r := newRun(w, v)
	r.held = held(w, blockedBudgets)
	stuck := r.play()
	stalls := r.stalls(stuck)
	told := map[int]bool{}
	for _, s := range stalls {
		told[s.budget] = true
	}
	for _, found := range blockedBudgets {
		if !told[found.Budget.ID] {
			told[found.Budget.ID] = true
			stalls = append(stalls, possible(w, found))
		}
	}
	if len(stalls) > 0 {
		attribute(prover, stalls, blockedBudgets)
	}
	return r.steps, stalls
}

// held returns the classes of pods that have one of the blocked budgets.
func held(w *scheduling.Cluster, blockedBudgets []proof.BlockedBudget) map[*scheduling.PodClass]bool {
	held := map[*scheduling.PodClass]bool{}
	for _, found := range blockedBudgets {
		for _, i := range found.Budget.Pods {
			held[w.Pods[i].PodClass] = true
		}
	}
	return held
}

// attribute says of each stall whether it would be there if every pull worked. Pods that merely may
// not end or not be made again turn no stall by an image into another one, nor one without any
// image into one by an image.
func attribute(w *proof.Prover, stalls []Stall, blockedBudgets []proof.BlockedBudget) {
	if !mayFail(w.Cluster) {
		return
	}
	v := scheduling.Assumption{Images: w.Images, Works: true, Sure: true}
	without := byBudget(w.BlockedBudgets(v))
	r := newRun(w.Cluster, v)
	drains := map[int]bool{}
	for _, s := range r.stalls(r.play()) {
		drains[s.budget] = true
	}
	all := byBudget(blockedBudgets)
	byOther := sync.OnceValues(func() (certain, doubtful map[int]bool) {
		if !w.HasDoubts() {
			return nil, nil
		}
		certain, doubtful = map[int]bool{}, map[int]bool{}
		for budget := range byBudget(w.BlockedBudgets(scheduling.Assumption{Images: w.Images, Sure: true})) {
			certain[budget] = true
		}
		for budget := range byBudget(w.BlockedBudgets(scheduling.Assumption{Images: w.Images, Works: true})) {
			doubtful[budget] = true
		}
		return certain, doubtful
	})
	for i := range stalls {
		s := &stalls[i]
		if s.budget == noBudget {
			continue
		}
		_, other := without[s.budget]
		switch {
		case drains[s.budget]:
		case s.Image == "" && all[s.budget].ByImage > 0: // told of pods that may not be made, and so may need none
			*s = possible(w.Cluster, all[s.budget])
			s.ByImage = true
		case s.Image != "":
			s.ByImage = true
		case !other:
			certain, doubtful := byOther()
			s.ByImage = certain[s.budget] || !doubtful[s.budget]
		}
		if !s.ByImage {
			s.Image = ""
		}
	}
}

// byBudget returns the blocked budgets by their numbers, each as most pods lack an image.
func byBudget(blockedBudgets []proof.BlockedBudget) map[int]proof.BlockedBudget {
	worst := make(map[int]proof.BlockedBudget, len(blockedBudgets))
	for _, found := range blockedBudgets {
		if other, known := worst[found.Budget.ID]; !known || found.ByImage > other.ByImage {
			worst[found.Budget.ID] = found
		}
	}
	return worst
}

// mayFail reports whether any image cannot be pulled somewhere, or perhaps cannot.
func mayFail(w *scheduling.Cluster) bool {
	v := scheduling.Assumption{Images: w.Images}
	return slices.ContainsFunc(w.Classes, func(s *scheduling.PodClass) bool { return w.Ask(1) || slices.ContainsFunc(s.Made, v.AnywhereFails) }) ||
		slices.ContainsFunc(w.Pods, func(p scheduling.Pod) bool { return p.State == scheduling.Failing })
}

// possible turns a blocked budget into the stall that it cannot exclude.
func possible(w *scheduling.Cluster, found proof.BlockedBudget) Stall {
	s := Stall{Pod: w.Pods[found.Pod].FullName(), Budgets: found.Budgets, Missing: found.Missing, Why: found.Why, Possible: true, budget: found.Budget.ID}
	n := lastDrained(w, found)
	s.Node, s.Pool = w.Nodes[n].Name, w.Pools[w.Nodes[n].Pool].Name
	for _, m := range found.Missing {
		if m.Image != "" {
			s.Image = m.Image
			break
		}
	}
	return s
}

// lastDrained returns the node of the pod that cannot be evicted, or any that is drained.
func lastDrained(w *scheduling.Cluster, found proof.BlockedBudget) int32 {
	if n := w.Pods[found.Pod].At; n >= 0 {
		return n
	}
	for i := range w.Nodes {
		if w.Nodes[i].Drained {
			return int32(i)
		}
	}
	return 0
}

// stalls returns the drains that have not ended, one for each budget that refuses.
func (r *run) stalls(stuck []*drain) []Stall {
	var all []Stall
	for _, d := range stuck {
		step := &r.steps[d.step]
		seen := map[int]bool{}
		for _, pod := range d.pods {
			step.Refused = append(step.Refused, r.w.Pods[pod].FullName())
			budgets := r.w.Pods[pod].PodClass.Budgets
			if len(budgets) == 0 || seen[budgets[0].ID] {
				continue
			}
			seen[budgets[0].ID] = true
			all = append(all, r.stall(d, pod))
		}
		for _, l := range d.held {
			step.Refused = append(step.Refused, l.Name)
		}
		if len(d.held) > 0 {
			l := d.held[0]
			all = append(all, Stall{
				Pool: r.w.Pools[d.pool].Name, Node: r.w.Nodes[d.node].Name, Pod: l.Name, Budgets: []string{}, Why: l.Why, Possible: !l.Sure, budget: noBudget,
			})
		}
	}
	return all
}

func (r *run) stall(d *drain, pod int32) Stall {
	budgets := r.w.Pods[pod].PodClass.Budgets
	b := budgets[0]
	s := Stall{Pool: r.w.Pools[d.pool].Name, Node: r.w.Nodes[d.node].Name, Pod: r.w.Pods[pod].FullName(), budget: b.ID}
	if len(budgets) > 1 {
		s.Budgets, s.Why = r.w.Pods[pod].PodClass.BudgetNames(), scheduling.TooManyBudgets
		return s
	}
	s.Budgets = []string{b.FullName()}
	doubtful := 0
	for _, i := range b.Pods {
		if r.state[i] == scheduling.Healthy || i == pod {
			continue
		}
		m := r.missing(i)
		if why, sure := r.withheld(i); why != "" && !sure {
			doubtful++
		}
		if s.Image == "" {
			s.Image = m.Image
		}
		s.Missing = append(s.Missing, m)
	}
	s.Why = b.Reason(len(s.Missing))
	s.Possible = doubtful > 0 && b.Allows(r.state[pod], r.ready[b.ID]+doubtful)
	return s
}

// missing says why a pod is not ready.
func (r *run) missing(i int32) proof.Missing {
	p := &r.w.Pods[i]
	m := proof.Missing{Pod: r.w.Pods[i].FullName(), Moved: r.moved[i]}
	if n := r.At[i]; n >= 0 {
		m.Node, m.Updated = r.w.Nodes[n].Name, r.updated[n]
	}
	switch {
	case p.At == scheduling.LostNode && !r.moved[i]:
		m.Node, m.Why = p.Node, "is on a node that is not there"
	case r.state[i] == scheduling.Gone:
		m.Why = "was evicted, and nothing replaces it"
	case r.state[i] == scheduling.Unscheduled:
		if m.Why, _ = r.withheld(i); m.Why == "" {
			m.Why = r.whyUnplaced(p.PodClass)
		}
	case r.image[i] >= 0:
		m.Image = r.w.Images.Names[r.image[i]]
	case r.state[i] == scheduling.Failing:
		m.Why = "has not started"
	default:
		m.Why = "is not ready"
	}
	return m
}

// whyUnplaced says what keeps a pod from the nodes that it is eligible for.
func (r *run) whyUnplaced(s *scheduling.PodClass) string {
	if s.Waits() {
		return "waits for its scheduling gates to be lifted, or has a scheduler of its own"
	}
	var why []scheduling.Obstruction
	for i := range r.w.Nodes {
		o := r.RuledOut(s, int32(i))
		if r.w.Ask(1); o != "" && !slices.Contains(why, o) {
			why = append(why, o)
		}
	}
	return "fits no node, ruled out by " + reasons(why)
}

// noBudget stands for none in a Stall.
const noBudget = -1
