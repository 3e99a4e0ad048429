package scheduling

import (
	"maps"
	"slices"
)

// BesideFixed returns the nodes on which no pod that stays is in the way of s.
func (w *Cluster) BesideFixed(s *PodClass) *NodeSet {
	nodes := s.Eligible
	var partial []string
	for _, c := range s.Spreads {
		if c.Domains.partial {
			partial = append(partial, c.Domains.Key)
		}
	}
	if len(partial) > 0 {
		nodes = w.keys.inAll(nodes, partial)
	}
	if !slices.ContainsFunc(s.NoneOf, func(c *Counter) bool { return c.hasTaken() }) {
		return nodes
	}
	var keep []int32
	for _, n := range nodes.List {
		w.Ask(1)
		if !slices.ContainsFunc(s.NoneOf, func(c *Counter) bool { return c.isTaken(c.Domains.Of[n]) }) {
			keep = append(keep, n)
		}
	}
	return w.candidates.intern(keep)
}

// isFixed reports whether a pod that stays is in the domain.
func (c *Counter) isFixed(d int32) bool { return c.hasFixed() && d >= 0 && c.fixed[d] }

// hasFixed reports whether any of the pods stays.
func (c *Counter) hasFixed() bool {
	if c.fixed == nil {
		c.fixed = map[int32]bool{}
		for _, s := range c.Classes {
			for _, n := range s.fixed {
				if at := c.Domains.Of[n]; at >= 0 && (c.only == nil || c.only.Has(n)) {
					c.fixed[at] = true
				}
			}
		}
	}
	return len(c.fixed) > 0
}

// isTaken reports whether a pod that stays, or is leaving, is in the domain.
func (c *Counter) isTaken(d int32) bool { return c.hasTaken() && d >= 0 && c.taken[d] }

func (c *Counter) hasTaken() bool {
	if c.taken == nil {
		c.hasFixed()
		c.taken = maps.Clone(c.fixed)
		for _, s := range c.Classes {
			for _, n := range s.leaving {
				if at := c.Domains.Of[n]; at >= 0 {
					c.taken[at] = true
				}
			}
		}
	}
	return len(c.taken) > 0
}

// InCompany returns the nodes where pods that stay are the company that s requires. One domain
// for all of them is enough for a pod that is its own company.
func (w *Cluster) InCompany(s *PodClass, in *NodeSet) *NodeSet {
	nodes := in.List
	for _, a := range s.SomeOf {
		single := a.own && !slices.ContainsFunc(a.counters, func(c *Counter) bool { return c.Domains.N != 1 })
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n int32) bool {
			return slices.ContainsFunc(a.counters, func(c *Counter) bool {
				return c.Domains.Of[n] < 0 || !single && !c.isFixed(c.Domains.Of[n])
			})
		})
	}
	return w.candidates.intern(nodes)
}
