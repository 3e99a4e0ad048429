package simulation

import (
	"cmp"
	"slices"
)

// run is a rollout under way, with a choice of nodes for pods that does harm.
type run struct {
	w *cluster
	*placement
	assumption
	// held are the classes of pods that budgets may keep on a node for good.
	held      map[*podClass]bool
	state     []podState
	image     []int32 // by pod: the image that fails, where state is failing
	moved     []bool
	unmade    []bool   // pods that their controllers have still to make
	more      holdings // images that came to nodes
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
	held []leaving
	step int
}

func newRun(w *cluster, v assumption) *run {
	r := &run{
		w: w, placement: w.newPlacement(v), assumption: v,
		state: make([]podState, len(w.pods)), image: make([]int32, len(w.pods)), moved: make([]bool, len(w.pods)), unmade: make([]bool, len(w.pods)), more: newHoldings(),
		updated: make([]bool, len(w.nodes)), ready: make([]int, len(w.budgets)), here: make([][]int32, len(w.nodes)),
		pools: make([]poolRun, len(w.pools)), moves: make([]moveAt, len(w.pods)),
	}
	r.search = newSearch(r)
	for i := range w.pods {
		pod, p := int32(i), &w.pods[i]
		r.image[i] = -1
		r.state[i] = p.state
		r.count(pod, 1)
		switch p.state {
		case failing:
			r.image[i] = r.fails(p.podClass, p.node, false, holdings{})
		case unscheduled:
			r.unmade[i] = p.Deleted
			r.waiting = append(r.waiting, pod)
		}
	}
	return r
}

func (r *run) count(pod int32, by int) {
	if r.state[pod] != healthy {
		return
	}
	for _, b := range r.w.pods[pod].podClass.budgets {
		r.ready[b.id] += by
	}
}

func (r *run) become(pod int32, s podState) {
	r.count(pod, -1)
	r.state[pod] = s
	r.count(pod, 1)
}

// play goes on until nothing can happen any more, and returns the drains that have not ended.
func (r *run) play() []*drain {
	r.schedule()
	for progress := true; progress && !r.w.stopped; {
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
				r.finish(d)
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
	return r.pools[pool].next == len(r.w.pools[pool].order) && len(r.pools[pool].drains) == 0
}

// take lets MCO take as many nodes of a pool as it may. A node that is not drained is updated
// on the spot.
func (r *run) take(i int) bool {
	of, p := &r.w.pools[i], &r.pools[i]
	if of.after >= 0 && !r.done(of.after) {
		return false
	}
	took := false
	for ; p.next < len(of.order) && len(p.drains) < of.capacity && !r.w.stopped; p.next++ {
		n := of.order[p.next]
		took = true
		d := &drain{node: n, pool: i, step: len(r.steps)}
		r.steps = append(r.steps, Step{Pool: of.Name, Node: r.w.nodes[n].Name, Drained: of.drains})
		if !of.drains {
			r.update(d)
			continue
		}
		r.cordon(n, true)
		for _, pod := range slices.Concat(r.w.nodes[n].pods, r.here[n]) {
			if r.node[pod] == n && r.isEvicted(pod) && !slices.Contains(d.pods, pod) {
				d.pods = append(d.pods, pod)
			}
		}
		for _, l := range r.w.nodes[n].leaving {
			if l.held && r.keeps(l) {
				d.held = append(d.held, l)
			}
		}
		p.drains = append(p.drains, d)
	}
	return took
}

// isEvicted reports whether a drain evicts the pod.
func (r *run) isEvicted(pod int32) bool {
	return r.w.pods[pod].IsEvictable() && r.state[pod] != gone
}

// evict evicts what budgets let go. All pods of a node are asked for at once, so that
// replacements are not ready before the last of them is.
func (r *run) evict(d *drain) bool {
	before := len(d.pods)
	d.pods = slices.DeleteFunc(d.pods, func(pod int32) bool {
		if r.node[pod] != d.node {
			return true // pushed out in the meantime
		}
		if r.w.ask(2) || !r.mayEvict(pod) {
			return false
		}
		r.evicted(pod, d)
		return true
	})
	return len(d.pods) < before
}

func (r *run) mayEvict(pod int32) bool {
	budgets := r.w.pods[pod].podClass.budgets
	switch {
	case r.state[pod] == failing, len(budgets) == 0:
		return true
	case len(budgets) > 1:
		return false
	default:
		return budgets[0].allows(r.state[pod], r.ready[budgets[0].id])
	}
}

func (r *run) evicted(pod int32, d *drain) {
	step := &r.steps[d.step]
	if l, stays := r.w.staysBehind(pod); stays && r.keeps(l) {
		d.held = append(d.held, l)
		r.leaves(pod)
	} else {
		r.remove(pod)
	}
	r.image[pod] = -1
	r.moves[pod] = moveAt{d.step, len(step.Moves)}
	move := Move{Pod: r.w.pods[pod].FullName(), Outcome: Unschedulable}
	if r.w.pods[pod].isNeverReplaced() {
		move.Outcome = Gone
		r.become(pod, gone)
	} else {
		r.become(pod, unscheduled)
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
		return cmp.Compare(r.w.pods[b].podClass.spec.Priority, r.w.pods[a].podClass.spec.Priority)
	})
	placed := 0
	r.waiting = slices.DeleteFunc(r.waiting, func(pod int32) bool {
		n := noNode
		if !r.w.ask(2) {
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

// choose returns the node that a pod goes to, noNode if there is none.
func (r *run) choose(pod int32) int32 {
	p := &r.w.pods[pod]
	if p.guard {
		if !r.cordoned[p.node] {
			return p.node
		}
		return noNode
	}
	if why, _ := r.withheld(pod); why != "" {
		return noNode
	}
	r.unmade[pod] = false
	if p.podClass.waits() {
		return noNode
	}
	n := r.search.find(p.podClass)
	if n < 0 && p.podClass.spec.Preempts && p.podClass.spec.Priority > r.w.lowest {
		return r.preempt(pod)
	}
	return n
}

// start puts a pod on a node, where its images are pulled.
func (r *run) start(pod, n int32) {
	r.put(pod, n)
	r.here[n] = append(r.here[n], pod)
	r.try(pod)
	if !r.moved[pod] {
		return
	}
	at := r.moves[pod]
	move := &r.steps[at.step].Moves[at.move]
	move.To, move.Updated, move.Outcome = r.w.nodes[n].Name, r.updated[n], Starts
	if r.state[pod] != healthy {
		move.Outcome = ImageFails
		if r.image[pod] >= 0 {
			move.Image = r.w.images.names[r.image[pod]]
		}
	}
}

// try lets the kubelet start the pod.
func (r *run) try(pod int32) {
	s, n := r.w.pods[pod].podClass, r.node[pod]
	r.image[pod] = r.fails(s, n, r.updated[n], r.more)
	if r.image[pod] >= 0 {
		r.become(pod, failing)
		return
	}
	if r.w.pods[pod].state == unready && r.w.pods[pod].node != lostNode {
		r.become(pod, unready) // as it was before
		return
	}
	r.become(pod, healthy)
	for _, pull := range s.pulls {
		r.w.images.started(r.more, pull, n)
	}
}

func (r *run) finish(d *drain) {
	p := &r.pools[d.pool]
	p.drains = slices.DeleteFunc(p.drains, func(other *drain) bool { return other == d })
	r.update(d)
}

// update gives a node its new configuration. Pods there that could not pull try again.
func (r *run) update(d *drain) {
	n := d.node
	r.updated[n] = true
	r.cordon(n, false)
	r.steps[d.step].Updated = true
	r.search.settle(n)
	for _, pod := range slices.Concat(r.w.nodes[n].pods, r.here[n]) {
		if r.node[pod] == n && r.state[pod] == failing && r.image[pod] >= 0 {
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
	p := &r.w.pods[pod]
	if why, sure := r.w.unmade(p, r.assumption); why != "" {
		return why, sure
	}
	if p.set == nil {
		return "", false
	}
	first := p.set.first(func(lower int32) bool { return r.state[lower] != healthy })
	return p.set.waitsFor(r.w, pod, first, r.assumption)
}
