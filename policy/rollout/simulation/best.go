package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// best returns the best course. Its stalls are those that no choice of the scheduler avoids.
func (w *cluster) best() Course {
	v := assumption{im: w.images, hopeful: true}
	r := w.newRun(v, false)
	stuck := r.play()
	course := Course{Steps: r.steps}
	if len(stuck) == 0 {
		return course
	}
	for _, s := range r.stalls(stuck) { // each by a budget: in the best course pods end
		why, certain := w.inevitable(w.budgets[s.budget], v)
		if !certain {
			continue
		}
		if s.Why == "" && len(s.Missing) == 0 {
			s.Why = why
		}
		_, without := w.inevitable(w.budgets[s.budget], assumption{im: w.images, hopeful: true, works: true})
		s.ByImage = !without
		course.Stalls = append(course.Stalls, s)
	}
	course.Undecided = len(course.Stalls) == 0
	return course
}

// inevitable reports whether a budget keeps a pod on a node that is drained whatever happens,
// and why: one that runs and is ready, so that the budget has to allow its eviction.
//
// A budget lets its last ready pod go only while as many others are ready as it asks for, and later on
// there are only more. A rollout at whose end fewer can be ready does not come that far.
func (w *cluster) inevitable(b *budget, v assumption) (string, bool) {
	stays := int32(-1)
	for _, i := range b.pods {
		p := &w.pods[i]
		if p.stays || p.node < 0 || p.state != healthy && p.state != unready {
			continue
		}
		if len(p.podClass.budgets) > 1 {
			return w.doubled(i).why, true
		}
		if p.state == healthy && stays < 0 {
			stays = i
		}
	}
	switch {
	case stays < 0:
		return "", false
	case b.never != "" || b.most <= b.desired:
		return b.reason(0), true
	}
	lost := 0
	for _, i := range b.pods {
		if p := &w.pods[i]; !p.stays && !w.canEnd(p, v) {
			lost++
		}
	}
	return "", b.most-lost < b.desired
}

// canEnd reports whether there is a node where the pod may be ready at the end of the rollout.
func (w *cluster) canEnd(p *pod, v assumption) bool {
	switch {
	case p.isNeverReplaced() && p.node >= 0:
		return false
	case p.guard:
		return w.canEndOn(p.podClass, w.byName[p.Node], v)
	case p.podClass.waits():
		return true
	default:
		key := endKey{p.podClass, v}
		can, known := w.ends[key]
		if !known {
			can = w.classCanEnd(p.podClass, v)
			w.ends[key] = can
		}
		return can
	}
}

// endKey is everything that canEnd depends on, for pods that may go to several nodes.
type endKey struct {
	*podClass
	assumption
}

// classCanEnd is canEnd for pods of a class. Nodes differ by their routes, and by the images that they
// have: it looks at one of those with equal routes, and at those with one of the images.
func (w *cluster) classCanEnd(s *podClass, v assumption) bool {
	can := func(n int32) bool {
		w.ask(1)
		return w.canEndOn(s, n, v)
	}
	if slices.ContainsFunc(w.routesIn(s.eligible), can) {
		return true
	}
	return slices.ContainsFunc(s.pulls, func(p imagePull) bool {
		return p.policy != corev1.PullAlways && slices.ContainsFunc(w.images.holders(p.image), func(n int32) bool { return s.eligible.has(n) && can(n) })
	})
}

// routesIn returns a node of a set for each way in which nodes pull, apart from the images that they
// have.
func (w *cluster) routesIn(set *nodeSet) []int32 {
	type route struct {
		pool                int
		taken, drained, cut bool
	}
	if nodes, known := w.routes[set]; known {
		return nodes
	}
	seen := map[route]bool{}
	var nodes []int32
	for _, n := range set.list {
		at := &w.nodes[n]
		r := route{at.pool, at.taken, at.drained, w.images.cut[n]}
		if !seen[r] {
			seen[r] = true
			nodes = append(nodes, n)
		}
	}
	w.routes[set] = nodes
	return nodes
}

// canEndOn reports whether the images of a pod may all be there, or be pulled, on a node at the
// end. A pod that started before the node was updated may have brought an image; it stays
// there itself only if the node is not drained, or if it went there in spite of the cordon.
func (w *cluster) canEndOn(s *podClass, n int32, v assumption) bool {
	at := &w.nodes[n]
	for _, p := range s.pulls {
		before, after := v.starts(p, n, false, holdings{}), v.starts(p, n, true, holdings{})
		switch {
		case !at.taken && before:
		case at.taken && after, at.taken && before && (!at.drained || s.toleratesCordon || p.policy != corev1.PullAlways):
		case p.policy != corev1.PullAlways && w.mayBring(p, n, v):
		default:
			return false
		}
	}
	return true
}

// mayBring reports whether a pod that pulls the image may run on the node at any time.
func (w *cluster) mayBring(p imagePull, n int32, v assumption) bool {
	return v.pulls(p, n, false) || w.nodes[n].taken && v.pulls(p, n, true)
}
