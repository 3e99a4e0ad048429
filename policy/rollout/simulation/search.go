package simulation

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// search finds nodes for pods. For each set of eligible nodes it keeps them in the order of preference:
// first nodes that are updated or not part of the rollout, as the taint UpdateInProgress keeps pods away
// from the others if it can; and of the others, those that are updated last.
type search struct {
	r *run
	// bySet is by nodeSet.id.
	bySet []*candidates
	// order is the place of each node among those that are still to come.
	order []int32
	// freed are the nodes that became free, in that order; failed says how many had when no node was
	// found, for pods that need the same.
	freed  []int32
	failed map[need]int
	needs  map[*podClass]need
	// doubts says, by class, what mayFail returned: 1 for false, 2 for true.
	doubts []int8
	looked int
}

// enough is how many nodes a search for a preferred one looks at that a pod could go to.
const enough = 40

// candidates are the nodes of a set, in the order of preference.
type candidates struct {
	set     *nodeSet
	settled []int32
	next    int
	coming  []int32
}

func newSearch(r *run) *search {
	s := &search{r: r, order: make([]int32, len(r.w.nodes)), failed: map[need]int{}, needs: map[*podClass]need{}, doubts: make([]int8, len(r.w.classes))}
	for _, p := range r.w.pools {
		for i, n := range p.order {
			s.order[n] = int32(len(p.order) - i) //nolint:gosec // there are not that many
		}
	}
	return s
}

func (s *search) of(set *nodeSet) *candidates {
	if set.id >= len(s.bySet) {
		s.bySet = append(s.bySet, make([]*candidates, set.id+1-len(s.bySet))...)
	}
	c := s.bySet[set.id]
	if c != nil {
		return c
	}
	c = &candidates{set: set}
	for _, n := range set.list {
		if s.r.w.nodes[n].taken && !s.r.updated[n] {
			c.coming = append(c.coming, n)
			continue
		}
		c.settled = append(c.settled, n)
	}
	slices.SortStableFunc(c.coming, func(a, b int32) int { return int(s.order[a] - s.order[b]) })
	s.bySet[set.id] = c
	return c
}

// settle moves a node that is updated among those that are preferred.
func (s *search) settle(n int32) {
	for _, c := range s.bySet {
		if c != nil && c.set.has(n) {
			c.settled = append(c.settled, n)
		}
	}
	s.freed = append(s.freed, n)
}

// find returns the node that does most harm among those where a pod can go: one where it does not start, if
// there is one, and otherwise, for a pod that a budget may hold, the one that is drained next. It does not
// look at all of many nodes for that.
func (s *search) find(of *podClass) int32 {
	c := s.of(of.eligible)
	need := s.needOf(of)
	since, failed := s.failed[need]
	if failed && of.plain() { // other nodes are as full as they were
		c = &candidates{set: of.eligible, settled: s.freed[since:]}
	}
	n := s.findIn(c, of)
	if n < 0 {
		s.failed[need] = len(s.freed)
	}
	return n
}

// need identifies the demand of a pod on nodes: room alone, or all that pods of its class demand.
type need struct {
	set      *nodeSet
	requests string
	podClass *podClass
}

func (s *search) needOf(of *podClass) need {
	n, known := s.needs[of]
	if !known {
		n = need{podClass: of}
		if !of.toleratesCordon && len(of.noneOf)+len(of.someOf)+len(of.spreads) == 0 {
			n = need{set: of.eligible, requests: packed(of.requests)}
		}
		s.needs[of] = n
	}
	return n
}

func (s *search) findIn(c *candidates, of *podClass) int32 {
	if s.mayFail(of) {
		if n := s.first(c, of, func(n int32) bool { return s.r.fails(of, n, s.r.updated[n], s.r.more) >= 0 }); n >= 0 {
			return n
		}
	}
	if s.r.held[of] {
		if n := s.soonest(c, of); n >= 0 {
			return n
		}
	}
	return s.first(c, of, func(int32) bool { return true })
}

// soonest returns of the nodes that are still to be updated, and where the pod can go, the one that
// is next: there it is evicted again as soon as that can be.
func (s *search) soonest(c *candidates, of *podClass) int32 {
	seen := 0
	for _, n := range slices.Backward(c.coming) {
		if seen > enough || s.r.w.stopped {
			break
		}
		if s.r.updated[n] {
			continue
		}
		if s.can(of, n) {
			return n
		}
		seen++
	}
	return noNode
}

// mayFail reports whether an image of the class cannot be pulled, or perhaps cannot, anywhere.
func (s *search) mayFail(of *podClass) bool {
	if s.doubts[of.id] == 0 {
		s.doubts[of.id] = 1 + int8(convert.Int(slices.ContainsFunc(of.pulls, func(p imagePull) bool { return s.r.anywhereFails(p) }))) //nolint:gosec // 1 or 2
	}
	return s.doubts[of.id] == 2
}

// first returns the first node that suits and where the pod can go. It goes on where it
// stopped the last time, so that pods spread over nodes.
func (s *search) first(c *candidates, of *podClass, suits func(int32) bool) int32 {
	seen, at := 0, c.next
	for range c.settled {
		if at >= len(c.settled) {
			at = 0
		}
		n := c.settled[at]
		at++
		if s.r.w.stopped || seen > enough {
			break
		}
		if !s.can(of, n) {
			continue
		}
		if suits(n) {
			c.next = at
			return n
		}
		seen++
	}
	for len(c.coming) > 0 && s.r.updated[c.coming[len(c.coming)-1]] {
		c.coming = c.coming[:len(c.coming)-1]
	}
	seen = 0
	for _, n := range c.coming {
		if seen > enough || s.r.w.stopped {
			break
		}
		if s.r.updated[n] || !s.can(of, n) {
			continue
		}
		if suits(n) {
			return n
		}
		seen++
	}
	return noNode
}

func (s *search) can(of *podClass, n int32) bool {
	s.looked++
	if s.looked%64 == 0 {
		s.r.w.ask(8)
	}
	return s.r.obstructed(of, n) == ""
}
