package simulation

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// run is a rollout under way, with a choice of nodes for pods that does harm.
type run struct {
	w *scheduling.Cluster
	*scheduling.Placement
	scheduling.Assumption
	// held are the classes of pods that budgets may keep on a node for good.
	held      map[*scheduling.PodClass]bool
	state     []scheduling.PodState
	image     []int32 // by pod: the image that fails, where state is failing
	moved     []bool
	unmade    []bool              // pods that their controllers have still to make
	more      scheduling.Holdings // images that came to nodes
	updated   []bool
	ready     []int // by budget
	waiting   []int32
	pushedOut []int32   // by preemption, since pods were placed last
	here      [][]int32 // by node: pods that were evicted and came here
	search    *search
	pools     []poolRun
	steps     []Step
	moves     []moveAt // by pod: the last of its moves
}

type moveAt struct{ step, move int }

// poolRun is the progress of a pool.
type poolRun struct {
	next   int
	drains []*drain
}

// drain is a node that is cordoned, with the pods that are still to be evicted.
type drain struct {
	node int32
	pool int
	pods []int32
	// held are the pods that have to end first.
	held []scheduling.Leaving
	step int
}

func newRun(w *scheduling.Cluster, v scheduling.Assumption) *run {
	r := &run{
		w: w, Placement: w.NewPlacement(v), Assumption: v,
		state: make([]scheduling.PodState, len(w.Pods)), image: make([]int32, len(w.Pods)), moved: make([]bool, len(w.Pods)), unmade: make([]bool, len(w.Pods)), more: scheduling.NewHoldings(),
		updated: make([]bool, len(w.Nodes)), ready: make([]int, len(w.Budgets)), here: make([][]int32, len(w.Nodes)),
		pools: make([]poolRun, len(w.Pools)), moves: make([]moveAt, len(w.Pods)),
	}
	r.search = newSearch(r)
	for i := range w.Pods {
		pod, p := int32(i), &w.Pods[i]
		r.image[i] = -1
		r.state[i] = p.State
		r.count(pod, 1)
		switch p.State {
		case scheduling.Failing:
			r.image[i] = r.Fails(p.PodClass.Pulls, p.At, false, scheduling.Holdings{})
		case scheduling.Unscheduled:
			r.unmade[i] = p.Deleted
			r.waiting = append(r.waiting, pod)
		}
	}
	return r
}

func (r *run) count(pod int32, by int) {
	if r.state[pod] != scheduling.Healthy {
		return
	}
	for _, b := range r.w.Pods[pod].PodClass.Budgets {
		r.ready[b.ID] += by
	}
}

func (r *run) become(pod int32, s scheduling.PodState) {
	r.count(pod, -1)
	r.state[pod] = s
	r.count(pod, 1)
}

// play goes on until nothing can happen any more, and returns the drains that have not ended.
func (r *run) play() []*drain {
	r.schedule()
	for progress := true; progress && !r.w.Stopped; {
		progress = false
		for i := range r.pools {
			progress = r.take(i) || progress
		}
		for _, d := range r.drains() {
			progress = r.evict(d) || progress
		}
		progress = r.schedule() || progress
		for _, d := range r.drains() {
			if len(d.pods)+len(d.held) == 0 {
				p := &r.pools[d.pool]
				p.drains = slices.DeleteFunc(p.drains, func(other *drain) bool { return other == d })
				r.update(d)
				progress = true
			}
		}
		r.schedule()
	}
	return r.drains()
}

func (r *run) drains() []*drain {
	var all []*drain
	for _, p := range r.pools {
		all = append(all, p.drains...)
	}
	slices.SortFunc(all, func(a, b *drain) int { return cmp.Compare(a.step, b.step) })
	return all
}

func (r *run) done(pool int) bool {
	return r.pools[pool].next == len(r.w.Pools[pool].Order) && len(r.pools[pool].drains) == 0
}

// take lets MCO take as many nodes of a pool as it may. A node that is not drained is updated
// on the spot.
func (r *run) take(i int) bool {
	of, p := &r.w.Pools[i], &r.pools[i]
	if of.Follows >= 0 && !r.done(of.Follows) {
		return false
	}
	took := false
	for ; p.next < len(of.Order) && len(p.drains) < of.Capacity && !r.w.Stopped; p.next++ {
		n := of.Order[p.next]
		took = true
		d := &drain{node: n, pool: i, step: len(r.steps)}
		r.steps = append(r.steps, Step{Pool: of.Name, Node: r.w.Nodes[n].Name, Drained: of.Drains})
		if !of.Drains {
			r.update(d)
			continue
		}
		r.Cordon(n, true)
		for _, pod := range slices.Concat(r.w.Nodes[n].Pods, r.here[n]) {
			if r.At[pod] == n && r.isEvicted(pod) && !slices.Contains(d.pods, pod) {
				d.pods = append(d.pods, pod)
			}
		}
		for _, l := range r.w.Nodes[n].Leaving {
			if l.Held && r.Keeps(l) {
				d.held = append(d.held, l)
			}
		}
		p.drains = append(p.drains, d)
	}
	return took
}

// isEvicted reports whether a drain evicts the pod.
func (r *run) isEvicted(pod int32) bool {
	return r.w.Pods[pod].IsEvictable() && r.state[pod] != scheduling.Gone
}

// evict evicts what budgets let go. All pods of a node are asked for at once, so that
// replacements are not ready before the last of them is.
func (r *run) evict(d *drain) bool {
	before := len(d.pods)
	d.pods = slices.DeleteFunc(d.pods, func(pod int32) bool {
		if r.At[pod] != d.node {
			return true // pushed out in the meantime
		}
		if r.w.Ask(2) || !r.mayEvict(pod) {
			return false
		}
		r.evicted(pod, d)
		return true
	})
	return len(d.pods) < before
}

func (r *run) mayEvict(pod int32) bool {
	budgets := r.w.Pods[pod].PodClass.Budgets
	switch {
	case r.state[pod] == scheduling.Failing, len(budgets) == 0:
		return true
	case len(budgets) > 1:
		return false
	default:
		return budgets[0].Allows(r.state[pod], r.ready[budgets[0].ID])
	}
}

func (r *run) evicted(pod int32, d *drain) {
	step := &r.steps[d.step]
	if l, stays := r.w.StaysBehind(pod); stays && r.Keeps(l) {
		d.held = append(d.held, l)
		r.Leaves(pod)
	} else {
		r.Remove(pod)
	}
	r.image[pod] = -1
	r.moves[pod] = moveAt{d.step, len(step.Moves)}
	move := Move{Pod: r.w.Pods[pod].FullName(), Outcome: Unschedulable}
	if r.w.Pods[pod].IsNeverReplaced() {
		move.Outcome = Gone
		r.become(pod, scheduling.Gone)
	} else {
		r.become(pod, scheduling.Unscheduled)
		r.moved[pod], r.unmade[pod] = true, true
		r.waiting = append(r.waiting, pod)
	}
	step.Moves = append(step.Moves, move)
}

// schedule places the pods that wait, those of the highest priority first.
func (r *run) schedule() bool {
	if len(r.waiting) == 0 {
		return false
	}
	slices.SortStableFunc(r.waiting, func(a, b int32) int {
		return cmp.Compare(r.w.Pods[b].PodClass.Spec.Priority, r.w.Pods[a].PodClass.Spec.Priority)
	})
	placed := 0
	r.waiting = slices.DeleteFunc(r.waiting, func(pod int32) bool {
		n := scheduling.NoNode
		if !r.w.Ask(2) {
			n = r.choose(pod)
		}
		if n < 0 {
			return false
		}
		r.start(pod, n)
		placed++
		return true
	})
	r.waiting = append(r.waiting, r.pushedOut...)
	r.pushedOut = nil
	for _, pod := range r.waiting {
		if r.moved[pod] {
			at := r.moves[pod]
			r.steps[at.step].Moves[at.move].Later = true
		}
	}
	return placed > 0
}

// choose returns the node that a pod goes to, NoNode if there is none.
func (r *run) choose(pod int32) int32 {
	p := &r.w.Pods[pod]
	if p.Guard {
		if !r.Cordoned[p.At] {
			return p.At
		}
		return scheduling.NoNode
	}
	if why, _ := r.withheld(pod); why != "" {
		return scheduling.NoNode
	}
	r.unmade[pod] = false
	if p.PodClass.Waits() {
		return scheduling.NoNode
	}
	n := r.search.find(p.PodClass)
	if n < 0 && p.PodClass.Spec.Preempts && p.PodClass.Spec.Priority > r.w.Lowest {
		return r.preempt(pod)
	}
	return n
}

// start puts a pod on a node, where its images are pulled.
func (r *run) start(pod, n int32) {
	r.Put(pod, n)
	r.here[n] = append(r.here[n], pod)
	r.try(pod)
	if !r.moved[pod] {
		return
	}
	at := r.moves[pod]
	move := &r.steps[at.step].Moves[at.move]
	move.To, move.Updated, move.Outcome = r.w.Nodes[n].Name, r.updated[n], Starts
	if r.state[pod] != scheduling.Healthy {
		move.Outcome = ImageFails
		if r.image[pod] >= 0 {
			move.Image = r.w.Images.Names[r.image[pod]]
		}
	}
}

// try lets the kubelet start the pod.
func (r *run) try(pod int32) {
	s, n := r.w.Pods[pod].PodClass, r.At[pod]
	pulls := s.Made
	if n == r.w.Pods[pod].At && !r.moved[pod] { // it is the one that was there
		pulls = s.Pulls
	}
	r.image[pod] = r.Fails(pulls, n, r.updated[n], r.more)
	if r.image[pod] >= 0 {
		r.become(pod, scheduling.Failing)
		return
	}
	if r.w.Pods[pod].State == scheduling.Unready && r.w.Pods[pod].At != scheduling.LostNode {
		r.become(pod, scheduling.Unready) // as it was before
		return
	}
	r.become(pod, scheduling.Healthy)
	for _, pull := range s.Pulls {
		r.w.Images.Started(r.more, pull, n)
	}
}

// update gives a node its new configuration. Pods there that could not pull try again.
func (r *run) update(d *drain) {
	n := d.node
	r.updated[n] = true
	r.Cordon(n, false)
	r.steps[d.step].Updated = true
	r.search.settle(n)
	for _, pod := range slices.Concat(r.w.Nodes[n].Pods, r.here[n]) {
		if r.At[pod] == n && r.state[pod] == scheduling.Failing && r.image[pod] >= 0 {
			r.try(pod)
		}
	}
}

// withheld says why a pod that waits for a node is not there yet, "" if it is. Sure says that
// this is known.
func (r *run) withheld(pod int32) (why string, sure bool) {
	if !r.unmade[pod] {
		return "", false
	}
	p := &r.w.Pods[pod]
	if why, sure := r.w.Unmade(p, r.Assumption); why != "" {
		return why, sure
	}
	if p.Set == nil {
		return "", false
	}
	first := p.Set.First(func(lower int32) bool { return r.state[lower] != scheduling.Healthy })
	return p.Set.WaitsFor(r.w, pod, first, r.Assumption)
}
