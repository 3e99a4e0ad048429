package simulation

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// search finds nodes for pods. For each set of eligible nodes it keeps them in the order of preference:
// first nodes that are updated or not part of the rollout, as the taint UpdateInProgress keeps pods away
// from the others if it can; and of the others, those that are updated last.
type search struct {
	r *run
	// bySet is by NodeSet.ID, as far as sets were asked for.
	bySet []*candidates
	// order is the place of each node among those that are still to come.
	order []int32
	// freed are the nodes that became free, in that order; failed says how many had when no node was
	// found, for pods that need the same, and after how many changes of the placement.
	freed  []int32
	failed map[need]failure
	needs  map[*scheduling.PodClass]need
	// doubts says, by class, what mayFail returned: 1 for false, 2 for true.
	doubts []int8
	looked int
}

type failure struct{ freed, changes int }

// enough is how many nodes a search for a preferred one looks at that a pod could go to.
const enough = 40

// candidates are the nodes of a set, in the order of preference.
type candidates struct {
	set     *scheduling.NodeSet
	settled []int32
	next    int
	coming  []int32
}

func newSearch(r *run) *search {
	s := &search{r: r, order: make([]int32, len(r.w.Nodes)), failed: map[need]failure{}, needs: map[*scheduling.PodClass]need{}, doubts: make([]int8, len(r.w.Classes))}
	for _, p := range r.w.Pools {
		for i, n := range p.Order {
			s.order[n] = int32(len(p.Order) - i) //nolint:gosec // there are not that many
		}
	}
	return s
}

func (s *search) of(set *scheduling.NodeSet) *candidates {
	if set.ID >= len(s.bySet) {
		s.bySet = append(s.bySet, make([]*candidates, set.ID+1-len(s.bySet))...)
	}
	c := s.bySet[set.ID]
	if c != nil {
		return c
	}
	c = &candidates{set: set}
	for _, n := range set.List {
		if s.r.w.Nodes[n].Taken && !s.r.updated[n] {
			c.coming = append(c.coming, n)
			continue
		}
		c.settled = append(c.settled, n)
	}
	slices.SortStableFunc(c.coming, func(a, b int32) int { return int(s.order[a] - s.order[b]) })
	s.bySet[set.ID] = c
	return c
}

// settle moves a node that is updated among those that are preferred.
func (s *search) settle(n int32) {
	for _, c := range s.bySet {
		if c != nil && c.set.Has(n) {
			c.settled = append(c.settled, n)
		}
	}
	s.freed = append(s.freed, n)
}

// find returns the node that does most harm among those where a pod can go: one where it does not start, if
// there is one, and otherwise, for a pod that a budget may hold, the one that is drained next. It does not
// look at all of many nodes for that.
func (s *search) find(of *scheduling.PodClass) int32 {
	c := s.of(of.Eligible)
	need := s.needOf(of)
	since, failed := s.failed[need]
	switch {
	case failed && since.changes == s.r.Changes:
		return scheduling.NoNode
	case failed && of.Plain(): // other nodes are as full as they were
		c = &candidates{set: of.Eligible, settled: s.freed[since.freed:]}
	}
	n := s.findIn(c, of)
	if n < 0 {
		s.failed[need] = failure{len(s.freed), s.r.Changes}
	}
	return n
}

// need identifies the demand of a pod on nodes: room alone, or all that pods of its class demand.
type need struct {
	set      *scheduling.NodeSet
	requests string
	podClass *scheduling.PodClass
}

func (s *search) needOf(of *scheduling.PodClass) need {
	n, known := s.needs[of]
	if !known {
		n = need{podClass: of}
		if !of.ToleratesCordon && len(of.NoneOf)+len(of.SomeOf)+len(of.Spreads) == 0 {
			n = need{set: of.Eligible, requests: scheduling.Packed(of.Requests)}
		}
		s.needs[of] = n
	}
	return n
}

func (s *search) findIn(c *candidates, of *scheduling.PodClass) int32 {
	if s.mayFail(of) {
		if n := s.first(c, of, func(n int32) bool { return s.r.Fails(of.Made, n, s.r.updated[n], s.r.more) >= 0 }); n >= 0 {
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
func (s *search) soonest(c *candidates, of *scheduling.PodClass) int32 {
	seen := 0
	for _, n := range slices.Backward(c.coming) {
		if seen > enough || s.r.w.Stopped {
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
	return scheduling.NoNode
}

// mayFail reports whether an image of the class cannot be pulled, or perhaps cannot, anywhere.
func (s *search) mayFail(of *scheduling.PodClass) bool {
	if s.doubts[of.ID] == 0 {
		s.doubts[of.ID] = 1 + int8(convert.Int(slices.ContainsFunc(of.Made, func(p scheduling.ImagePull) bool { return s.r.AnywhereFails(p) }))) //nolint:gosec // 1 or 2
	}
	return s.doubts[of.ID] == 2
}

// first returns the first node that suits and where the pod can go. It goes on where it
// stopped the last time, so that pods spread over nodes.
func (s *search) first(c *candidates, of *scheduling.PodClass, suits func(int32) bool) int32 {
	seen, at := 0, c.next
	for range c.settled {
		if at >= len(c.settled) {
			at = 0
		}
		n := c.settled[at]
		at++
		if s.r.w.Stopped || seen > enough {
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
		if seen > enough || s.r.w.Stopped {
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
	return scheduling.NoNode
}

func (s *search) can(of *scheduling.PodClass, n int32) bool {
	s.looked++
	if s.looked%64 == 0 {
		s.r.w.Ask(8)
	}
	return s.r.Obstructed(of, n) == ""
}
