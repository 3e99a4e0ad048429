package simulation

import (
	"maps"
	"slices"
)

// besideFixed returns the nodes on which no pod that stays is in the way of s.
func (w *cluster) besideFixed(s *podClass) *nodeSet {
	nodes := s.eligible
	var partial []string
	for _, c := range s.spreads {
		if c.domains.partial {
			partial = append(partial, c.domains.key)
		}
	}
	if len(partial) > 0 {
		nodes = w.keys.inAll(nodes, partial)
	}
	if !slices.ContainsFunc(s.noneOf, func(c *counter) bool { return c.hasTaken() }) {
		return nodes
	}
	var keep []int32
	for _, n := range nodes.list {
		w.ask(1)
		if !slices.ContainsFunc(s.noneOf, func(c *counter) bool { return c.isTaken(c.domains.of[n]) }) {
			keep = append(keep, n)
		}
	}
	return w.candidates.intern(keep)
}

// isFixed reports whether a pod that stays is in the domain.
func (c *counter) isFixed(d int32) bool { return c.hasFixed() && d >= 0 && c.fixed[d] }

// hasFixed reports whether any of the pods stays.
func (c *counter) hasFixed() bool {
	if c.fixed == nil {
		c.fixed = map[int32]bool{}
		for _, s := range c.classes {
			for _, n := range s.fixed {
				if at := c.domains.of[n]; at >= 0 && (c.only == nil || c.only.has(n)) {
					c.fixed[at] = true
				}
			}
		}
	}
	return len(c.fixed) > 0
}

// isTaken reports whether a pod that stays, or is leaving, is in the domain.
func (c *counter) isTaken(d int32) bool { return c.hasTaken() && d >= 0 && c.taken[d] }

func (c *counter) hasTaken() bool {
	if c.taken == nil {
		c.hasFixed()
		c.taken = maps.Clone(c.fixed)
		for _, s := range c.classes {
			for _, n := range s.leaving {
				if at := c.domains.of[n]; at >= 0 {
					c.taken[at] = true
				}
			}
		}
	}
	return len(c.taken) > 0
}

// inCompany returns the nodes where pods that stay are the company that s requires. One domain
// for all of them is enough for a pod that is its own company.
func (w *cluster) inCompany(s *podClass, in *nodeSet) *nodeSet {
	nodes := in.list
	for _, a := range s.someOf {
		single := a.own && !slices.ContainsFunc(a.counters, func(c *counter) bool { return c.domains.n != 1 })
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n int32) bool {
			return slices.ContainsFunc(a.counters, func(c *counter) bool {
				return c.domains.of[n] < 0 || !single && !c.isFixed(c.domains.of[n])
			})
		})
	}
	return w.candidates.intern(nodes)
}
