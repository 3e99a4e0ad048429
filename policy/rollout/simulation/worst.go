package simulation

import (
	"slices"
	"sync"
)

// worst plays the rollout with choices of the scheduler that do harm, and returns its steps and its stalls, with those that
// cannot be excluded.
func worst(w *cluster) ([]Step, []Stall) {
	v := assumption{im: w.images}
	proof := newProver(w)
	blockedBudgets := proof.blockedBudgets(v)
	r := newRun(w, v)
	r.held = held(w, blockedBudgets)
	stuck := r.play()
	stalls := r.stalls(stuck)
	told := map[int]bool{}
	for _, s := range stalls {
		told[s.budget] = true
	}
	for _, found := range blockedBudgets {
		if !told[found.budget.id] {
			told[found.budget.id] = true
			stalls = append(stalls, possible(w, found))
		}
	}
	if len(stalls) > 0 {
		attribute(proof, stalls, blockedBudgets)
	}
	return r.steps, stalls
}

// held returns the classes of pods that have one of the blocked budgets.
func held(w *cluster, blockedBudgets []blockedBudget) map[*podClass]bool {
	held := map[*podClass]bool{}
	for _, found := range blockedBudgets {
		for _, i := range found.budget.pods {
			held[w.pods[i].podClass] = true
		}
	}
	return held
}

// attribute says of each stall whether it would be there if every pull worked. Pods that merely may
// not end or not be made again turn no stall by an image into another one, nor one without any
// image into one by an image.
func attribute(w *Prover, stalls []Stall, blockedBudgets []blockedBudget) {
	if !mayFail(w.cluster) {
		return
	}
	v := assumption{im: w.images, works: true, sure: true}
	without := byBudget(w.blockedBudgets(v))
	r := newRun(w.cluster, v)
	drains := map[int]bool{}
	for _, s := range r.stalls(r.play()) {
		drains[s.budget] = true
	}
	all := byBudget(blockedBudgets)
	byOther := sync.OnceValues(func() (certain, doubtful map[int]bool) {
		if !w.doubts() {
			return nil, nil
		}
		certain, doubtful = map[int]bool{}, map[int]bool{}
		for budget := range byBudget(w.blockedBudgets(assumption{im: w.images, sure: true})) {
			certain[budget] = true
		}
		for budget := range byBudget(w.blockedBudgets(assumption{im: w.images, works: true})) {
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
		case s.Image != "" || all[s.budget] > 0:
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

// byBudget returns how many pods lack an image, by the blocked budgets.
func byBudget(blockedBudgets []blockedBudget) map[int]int {
	missing := make(map[int]int, len(blockedBudgets))
	for _, found := range blockedBudgets {
		missing[found.budget.id] = max(missing[found.budget.id], found.byImage)
	}
	return missing
}

// mayFail reports whether any image cannot be pulled somewhere, or perhaps cannot.
func mayFail(w *cluster) bool {
	v := assumption{im: w.images}
	return slices.ContainsFunc(w.classes, func(s *podClass) bool { return w.ask(1) || slices.ContainsFunc(s.pulls, v.anywhereFails) }) ||
		slices.ContainsFunc(w.pods, func(p pod) bool { return p.state == failing })
}

// possible turns a blocked budget into the stall that it cannot exclude.
func possible(w *cluster, found blockedBudget) Stall {
	s := Stall{Pod: w.pods[found.pod].FullName(), Budgets: found.budgets, Missing: found.missing, Why: found.why, Possible: true, budget: found.budget.id}
	n := lastDrained(w, found)
	s.Node, s.Pool = w.nodes[n].Name, w.pools[w.nodes[n].pool].Name
	for _, m := range found.missing {
		if m.Image != "" {
			s.Image = m.Image
			break
		}
	}
	return s
}

// lastDrained returns the node of the pod that cannot be evicted, or any that is drained.
func lastDrained(w *cluster, found blockedBudget) int32 {
	if n := w.pods[found.pod].node; n >= 0 {
		return n
	}
	for i := range w.nodes {
		if w.nodes[i].drained {
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
			step.Refused = append(step.Refused, r.w.pods[pod].FullName())
			budgets := r.w.pods[pod].podClass.budgets
			if len(budgets) == 0 || seen[budgets[0].id] {
				continue
			}
			seen[budgets[0].id] = true
			all = append(all, r.stall(d, pod))
		}
		for _, l := range d.held {
			step.Refused = append(step.Refused, l.name)
		}
		if len(d.held) > 0 {
			all = append(all, r.heldStall(d, d.held[0]))
		}
	}
	return all
}

func (r *run) stall(d *drain, pod int32) Stall {
	budgets := r.w.pods[pod].podClass.budgets
	b := budgets[0]
	s := Stall{Pool: r.w.pools[d.pool].Name, Node: r.w.nodes[d.node].Name, Pod: r.w.pods[pod].FullName(), budget: b.id}
	if len(budgets) > 1 {
		s.Budgets, s.Why = r.w.pods[pod].podClass.budgetNames(), tooManyBudgets
		return s
	}
	s.Budgets = []string{b.name()}
	doubtful := 0
	for _, i := range b.pods {
		if r.state[i] == healthy || i == pod {
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
	s.Why = b.reason(len(s.Missing))
	s.Possible = doubtful > 0 && b.allows(r.state[pod], r.ready[b.id]+doubtful)
	return s
}

// missing says why a pod is not ready.
func (r *run) missing(i int32) Missing {
	p := &r.w.pods[i]
	m := Missing{Pod: r.w.pods[i].FullName(), Moved: r.moved[i]}
	if n := r.node[i]; n >= 0 {
		m.Node, m.Updated = r.w.nodes[n].Name, r.updated[n]
	}
	switch {
	case p.node == lostNode && !r.moved[i]:
		m.Node, m.Why = p.Node, "is on a node that is not there"
	case r.state[i] == gone:
		m.Why = "was evicted, and nothing replaces it"
	case r.state[i] == unscheduled:
		if m.Why, _ = r.withheld(i); m.Why == "" {
			m.Why = r.whyUnplaced(p.podClass)
		}
	case r.image[i] >= 0:
		m.Image = r.w.images.names[r.image[i]]
	case r.state[i] == failing:
		m.Why = "has not started"
	default:
		m.Why = "is not ready"
	}
	return m
}

// whyUnplaced says what keeps a pod from the nodes that it is eligible for.
func (r *run) whyUnplaced(s *podClass) string {
	if s.waits() {
		return "waits for its scheduling gates to be lifted, or has a scheduler of its own"
	}
	var why []obstruction
	for i := range r.w.nodes {
		o := r.ruledOut(s, int32(i))
		if r.w.ask(1); o != "" && !slices.Contains(why, o) {
			why = append(why, o)
		}
	}
	return "fits no node, ruled out by " + reasons(why)
}

// heldStall returns the stall of a drain that waits for a pod to end.
func (r *run) heldStall(d *drain, l leaving) Stall {
	return Stall{
		Pool: r.w.pools[d.pool].Name, Node: r.w.nodes[d.node].Name, Pod: l.name, Budgets: []string{}, Why: l.why, Possible: !l.sure, budget: noBudget,
	}
}

// noBudget stands for none in a Stall.
const noBudget = -1
