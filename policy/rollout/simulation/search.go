package simulation

import "slices"

// A search finds nodes for pods. It keeps nodes in the order in which they are preferred, for
// each set of nodes that pods are eligible for: first those that are updated or stay as they
// are, as the taint UpdateInProgress keeps pods away from the others if it can, and of the
// others those first that are updated last.
type search struct {
	r *run
	// bySet is by nodeSet.id.
	bySet []*candidates
	// order is the place of each node among those that are still to come.
	order []int32
	// full remembers, by shape, at which count of freed room no node was found.
	full  map[int]int
	freed int
}

// candidates are the nodes of a set.
type candidates struct {
	set     *nodeSet
	settled []int32
	next    int
	coming  []int32
}

func newSearch(r *run) *search {
	s := &search{r: r, bySet: make([]*candidates, len(r.w.candidates.sets)), order: make([]int32, len(r.w.nodes))}
	for _, p := range r.w.pools {
		for i, n := range p.order {
			s.order[n] = int32(len(p.order) - i) //nolint:gosec // there are not that many
		}
	}
	return s
}

func (s *search) of(set *nodeSet) *candidates {
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
}

// find returns the node that is preferred among those where a pod can go. A pessimist takes
// one where it does not start, if there is one; everybody else one where it does.
func (s *search) find(of *shape) int32 {
	c := s.of(of.eligible)
	if s.r.pessimist && s.mayFail(of) {
		if n := s.first(c, of, func(n int32) bool { return !s.starts(of, n) }); n >= 0 {
			return n
		}
	}
	if n := s.first(c, of, func(n int32) bool { return s.starts(of, n) }); n >= 0 || s.r.pessimist {
		return n
	}
	return s.first(c, of, func(int32) bool { return true })
}

func (s *search) starts(of *shape, n int32) bool {
	return s.r.fails(of, n, s.r.updated[n], s.r.more) < 0
}

// mayFail reports whether an image of the shape cannot be pulled, or perhaps cannot, anywhere.
func (s *search) mayFail(of *shape) bool {
	return slices.ContainsFunc(of.pulls, func(p imagePull) bool { return s.r.anywhereFails(p) })
}

// first returns the first node that suits and where the pod can go. It goes on where it
// stopped the last time, so that pods spread over nodes.
func (s *search) first(c *candidates, of *shape, suits func(int32) bool) int32 {
	for i := range c.settled {
		at := (c.next + i) % len(c.settled)
		n := c.settled[at]
		if s.r.w.ask(0) {
			return noNode
		}
		if s.r.obstructed(of, n) == "" && suits(n) {
			c.next = at + 1
			return n
		}
	}
	for len(c.coming) > 0 && s.r.updated[c.coming[len(c.coming)-1]] {
		c.coming = c.coming[:len(c.coming)-1]
	}
	for _, n := range c.coming {
		if !s.r.updated[n] && s.r.obstructed(of, n) == "" && suits(n) {
			return n
		}
	}
	return noNode
}
