package proof

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// nodeSearch is the proof that the scheduler finds a node for a pod wherever all other pods are, or the
// reason why it may not.
type nodeSearch struct {
	// nodes are those where no pod that stays is in its way.
	nodes *scheduling.NodeSet
	// capacity is what they have for it.
	capacity capacity
	// rivals is how many moving pods it cannot share a node with. Taken is how much room these can take
	// from it, with those that it cannot share another domain with; weight is what they request.
	rivals        int
	taken, weight float64
	rivalOf       map[*scheduling.PodClass]bool // those that take a node each
	wide          map[*scheduling.PodClass]bool // those that take a larger domain
	// uneven is what its spread constraints can rule out.
	uneven []uneven
	// rivalry is what keeps them apart.
	rivalry scheduling.Obstruction
	// why is what keeps the pod from being placed in any case, "" if nothing does.
	why scheduling.Obstruction
}

// nodeSearches finds out whether pods find a node, for each class once.
type nodeSearches struct {
	capacities
	byClass []*nodeSearch // by PodClass.ID
	sizes   map[scheduling.DomainKey][]float64
}

// nodeSearchOf looks at pods of one class.
func (w *nodeSearches) nodeSearchOf(s *scheduling.PodClass) *nodeSearch {
	if known := w.byClass[s.ID]; known != nil {
		return known
	}
	p := &nodeSearch{nodes: s.Eligible, rivalOf: map[*scheduling.PodClass]bool{}, wide: map[*scheduling.PodClass]bool{}}
	w.byClass[s.ID] = p
	switch {
	case s.Waits():
		p.why = scheduling.NotTheDefault
		return p
	case len(s.Eligible.List) == 0:
		p.why = scheduling.NotEligible
		return p
	}
	p.nodes = w.BesideFixed(s)
	if len(p.nodes.List) > 0 && len(s.SomeOf) > 0 {
		p.nodes = w.InCompany(s, p.nodes)
		if len(p.nodes.List) == 0 {
			p.why = scheduling.NoAffinity
			return p
		}
	}
	p.capacity = w.capacity(s, p.nodes)
	w.addRivals(s, p)
	w.addUneven(s, p)
	p.why = p.short(cordons{unknown: true})
	return p
}

// cordons describe the cordoned nodes in the final state, when nothing can happen any more.
type cordons struct {
	// unknown says that nothing is.
	unknown bool
	// none says that they do not matter: the pod may go to none of them, or what rules each of them out
	// counts already (a rival, a pod that takes all of it, or a spread constraint).
	none bool
	// rivals is how many of them are known to have a rival. Weight is what a pod on one of them
	// requests, and spread are the constraints that count it.
	rivals int
	weight float64
	spread map[*scheduling.Counter]bool
	// ruledOut says that one of them is in a domain that a spread constraint rules out anyway.
	ruledOut bool
}

// short returns what can keep the pod from all nodes, "" for nothing.
func (p *nodeSearch) short(known cordons) scheduling.Obstruction {
	const least = 1e-9 // the error of sums of fractions
	left := p.capacity.total
	switch {
	case left <= least:
		if len(p.nodes.List) == 0 {
			return scheduling.NotEligible
		}
		return scheduling.NoRoom
	case !known.none:
		left -= p.capacity.cordoned - float64(convert.Int(known.ruledOut))*p.capacity.least
	}
	if left <= least {
		return scheduling.Cordoned
	}
	if left -= p.taken - p.top(known.rivals); left <= least {
		return p.rivalry
	}
	for _, u := range p.uneven {
		if left -= p.ruledOut(u, known); left <= least {
			return scheduling.SpreadUneven
		}
	}
	if left -= max(p.capacity.taken-p.weight-known.weight, 0); left <= least {
		return scheduling.NoRoom
	}
	return ""
}

// top returns how much less can be taken by n rivals fewer: each takes a node, the largest first, as
// long as there are any.
func (p *nodeSearch) top(n int) float64 {
	nodes := len(p.capacity.shares)
	all, fewer := min(p.rivals, nodes), min(max(p.rivals-n, 0), nodes)
	return sum(p.capacity.shares[fewer:all])
}

// addRivals adds up what can be taken by pods that s cannot be beside: a domain each, the largest first.
func (w *nodeSearches) addRivals(s *scheduling.PodClass, p *nodeSearch) {
	wide := map[*scheduling.PodClass]float64{}
	for _, c := range s.NoneOf {
		largest, single := w.largestDomain(c.Domains, p.nodes)
		p.rivalry = scheduling.AntiAffinity
		if c.Domains.Key == scheduling.HostPorts {
			p.rivalry = scheduling.PortTaken
		}
		for _, rival := range c.Classes {
			if rival.Mobile == 0 || c.Domains.PerNode && !rival.Reach.Overlaps(p.nodes) {
				continue
			}
			if single && staysIn(c.Domains, rival, p.nodes) {
				p.rivalOf[rival] = true
				continue
			}
			wide[rival] = max(wide[rival], largest)
		}
	}
	for rival, largest := range wide {
		p.wide[rival] = true
		if pods := rival.Mobile - convert.Int(rival == s) + w.leftBehind(rival); pods > 0 {
			p.taken += float64(pods) * largest
			p.weight += float64(pods) * w.demandOf(rival, p, s)
			delete(p.rivalOf, rival)
		}
	}
	for rival := range p.rivalOf {
		pods := rival.Mobile - convert.Int(rival == s)
		if s.ToleratesCordon {
			pods += w.leftBehind(rival)
		}
		p.rivals += pods
		p.weight += float64(pods) * w.demandOf(rival, p, s)
	}
	p.taken += sum(p.capacity.shares[:min(p.rivals, len(p.capacity.shares))])
}

// demandOf returns the part of a rival's requests that the capacity counts.
func (w *nodeSearches) demandOf(rival *scheduling.PodClass, p *nodeSearch, s *scheduling.PodClass) float64 {
	if !rival.Reach.Overlaps(p.nodes) || outranks(s, p.nodes) && rival.Spec.Priority < s.Spec.Priority {
		return 0
	}
	return weight(rival.Requests, p.capacity.largest, w.rounded(s, p.nodes))
}

// largestDomain returns how many of the nodes the largest domain has; single says that each is
// a node.
func (w *nodeSearches) largestDomain(d *scheduling.Domains, nodes *scheduling.NodeSet) (largest float64, single bool) {
	if d.Key == scheduling.HostPorts {
		return 1, true
	}
	sizes := w.sizesOf(d, nodes)
	if len(sizes) == 0 {
		return 0, true
	}
	return sizes[0], sizes[0] <= 1
}

// sizesOf returns how many of the nodes domains have, the largest first.
func (w *nodeSearches) sizesOf(d *scheduling.Domains, nodes *scheduling.NodeSet) []float64 {
	key := scheduling.DomainKey{Domains: d, Nodes: nodes}
	if known, ok := w.sizes[key]; ok {
		return known
	}
	sizes := make([]float64, d.N)
	for _, n := range nodes.List {
		if d.Of[n] >= 0 {
			sizes[d.Of[n]]++
		}
	}
	slices.SortFunc(sizes, func(a, b float64) int { return cmp.Compare(b, a) })
	w.sizes[key] = sizes
	return sizes
}

// staysIn reports whether a pod of a class that is in a domain with one of the nodes is on that node.
func staysIn(d *scheduling.Domains, s *scheduling.PodClass, nodes *scheduling.NodeSet) bool {
	return d.PerNode || s.Reach == nodes || !slices.ContainsFunc(s.Reach.List, func(n int32) bool { return !nodes.Has(n) })
}

// uneven is a spread constraint, with the pods that make it rule out domains: those with maxSkew more pods
// than the one with the fewest, which may have none.
type uneven struct {
	*scheduling.Counter
	// others is how many pods are counted beside the one that is placed, and fill how many of
	// them rule out a domain.
	others, fill int
	// sizes are how many nodes domains have, the largest first; single says that each has one.
	sizes  []float64
	single bool
	// open says that the pod may go to a node of each domain that counts, so that the one with the fewest
	// pods is never ruled out.
	open bool
}

func (w *nodeSearches) addUneven(s *scheduling.PodClass, p *nodeSearch) {
	for _, c := range s.Spreads {
		u := uneven{Counter: c.Counter, others: -convert.Int(c.Own), fill: max(c.Skew+1-convert.Int(c.Own), 1)}
		for _, of := range c.Classes {
			u.others += of.Pods
		}
		u.sizes = w.sizesOf(c.Domains, p.nodes)
		u.single = len(u.sizes) == 0 || u.sizes[0] <= 1
		u.open = c.Least <= 1 && c.Size > 0 && c.Size <= len(u.sizes) && u.sizes[c.Size-1] > 0
		p.uneven = append(p.uneven, u)
	}
}

// ruledOut returns how much a spread constraint can rule out. Where each domain is a node, a pod on a
// cordoned node rules out that node only. The facts about cordoned nodes assume that pods rule out
// domains, wherever the fewest are.
func (p *nodeSearch) ruledOut(u uneven, known cordons) float64 {
	if !u.single {
		most := len(u.sizes)
		if known.unknown && u.open {
			most = u.Size - 1
		}
		return sum(u.sizes[:min(max(u.others, 0)/u.fill, most)])
	}
	full := max(u.others-convert.Int(known.spread[u.Counter]), 0) / u.fill
	return sum(p.capacity.shares[:min(full, len(p.capacity.shares))])
}
