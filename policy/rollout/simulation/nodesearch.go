package simulation

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// nodeSearch is the proof that the scheduler finds a node for a pod wherever all other pods are, or the
// reason why it may not.
type nodeSearch struct {
	// nodes are those where no pod that stays is in its way.
	nodes *nodeSet
	// capacity is what they have for it.
	capacity capacity
	// rivals is how many moving pods it cannot share a node with. Taken is how much room these can take
	// from it, with those that it cannot share another domain with; weight is what they request.
	rivals        int
	taken, weight float64
	rivalOf       map[*podClass]bool // those that take a node each
	wide          map[*podClass]bool // those that take a larger domain
	// uneven is what its spread constraints can rule out.
	uneven []uneven
	// rivalry is what keeps them apart.
	rivalry obstruction
	// why is what keeps the pod from being placed in any case, "" if nothing does.
	why obstruction
}

// nodeSearchOf looks at pods of one class.
func (w *Prover) nodeSearchOf(s *podClass) *nodeSearch {
	if known := w.searches[s.id]; known != nil {
		return known
	}
	p := &nodeSearch{nodes: s.eligible, rivalOf: map[*podClass]bool{}, wide: map[*podClass]bool{}}
	w.searches[s.id] = p
	switch {
	case s.waits():
		p.why = notTheDefault
		return p
	case len(s.eligible.list) == 0:
		p.why = notEligible
		return p
	}
	p.nodes = w.besideFixed(s)
	if len(p.nodes.list) > 0 && len(s.someOf) > 0 {
		p.nodes = w.inCompany(s, p.nodes)
		if len(p.nodes.list) == 0 {
			p.why = noAffinity
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
	spread map[*counter]bool
	// ruledOut says that one of them is in a domain that a spread constraint rules out anyway.
	ruledOut bool
}

// short returns what can keep the pod from all nodes, "" for nothing.
func (p *nodeSearch) short(known cordons) obstruction {
	const least = 1e-9 // the error of sums of fractions
	left := p.capacity.total
	switch {
	case left <= least:
		if len(p.nodes.list) == 0 {
			return notEligible
		}
		return noRoom
	case !known.none:
		left -= p.capacity.cordoned - float64(convert.Int(known.ruledOut))*p.capacity.least
	}
	if left <= least {
		return isCordoned
	}
	if left -= p.taken - p.top(known.rivals); left <= least {
		return p.rivalry
	}
	for _, u := range p.uneven {
		if left -= p.ruledOut(u, known); left <= least {
			return spreadUneven
		}
	}
	if left -= max(p.capacity.taken-p.weight-known.weight, 0); left <= least {
		return noRoom
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
func (w *Prover) addRivals(s *podClass, p *nodeSearch) {
	wide := map[*podClass]float64{}
	for _, c := range s.noneOf {
		largest, single := w.largestDomain(c.domains, p.nodes)
		p.rivalry = antiAffinity
		if c.domains.key == hostPorts {
			p.rivalry = portTaken
		}
		for _, rival := range c.classes {
			if rival.mobile == 0 || c.domains.perNode && !rival.reach.overlaps(p.nodes) {
				continue
			}
			if single && staysIn(c.domains, rival, p.nodes) {
				p.rivalOf[rival] = true
				continue
			}
			wide[rival] = max(wide[rival], largest)
		}
	}
	for rival, largest := range wide {
		p.wide[rival] = true
		if pods := rival.mobile - convert.Int(rival == s) + w.leftBehind(rival); pods > 0 {
			p.taken += float64(pods) * largest
			p.weight += float64(pods) * w.demandOf(rival, p, s)
			delete(p.rivalOf, rival)
		}
	}
	for rival := range p.rivalOf {
		pods := rival.mobile - convert.Int(rival == s)
		if s.toleratesCordon {
			pods += w.leftBehind(rival)
		}
		p.rivals += pods
		p.weight += float64(pods) * w.demandOf(rival, p, s)
	}
	p.taken += sum(p.capacity.shares[:min(p.rivals, len(p.capacity.shares))])
}

// leftBehind returns how many pods of a class may have been evicted and not end. Each holds up the drain
// of a node, so that it is on one that is cordoned.
func (w *Prover) leftBehind(s *podClass) int {
	if s.keeps == 0 {
		return 0
	}
	drains := 0
	for i := range w.pools {
		drains += convert.Int(w.pools[i].drains) * min(w.pools[i].capacity, len(w.pools[i].order))
	}
	return s.keeps * drains
}

// demandOf returns the part of a rival's requests that the capacity counts.
func (w *Prover) demandOf(rival *podClass, p *nodeSearch, s *podClass) float64 {
	if !rival.reach.overlaps(p.nodes) || outranks(s, p.nodes) && rival.spec.Priority < s.spec.Priority {
		return 0
	}
	return weight(rival.requests, p.capacity.largest, w.rounded(s, p.nodes))
}

// largestDomain returns how many of the nodes the largest domain has; single says that each is
// a node.
func (w *Prover) largestDomain(d *domains, nodes *nodeSet) (largest float64, single bool) {
	if d.key == hostPorts {
		return 1, true
	}
	sizes := w.sizesOf(d, nodes)
	if len(sizes) == 0 {
		return 0, true
	}
	return sizes[0], sizes[0] <= 1
}

// sizesOf returns how many of the nodes domains have, the largest first.
func (w *Prover) sizesOf(d *domains, nodes *nodeSet) []float64 {
	key := domainKey{d, nodes}
	if known, ok := w.sizes[key]; ok {
		return known
	}
	sizes := make([]float64, d.n)
	for _, n := range nodes.list {
		if d.of[n] >= 0 {
			sizes[d.of[n]]++
		}
	}
	slices.SortFunc(sizes, func(a, b float64) int { return cmp.Compare(b, a) })
	w.sizes[key] = sizes
	return sizes
}

// staysIn reports whether a pod of a class that is in a domain with one of the nodes is on that node.
func staysIn(d *domains, s *podClass, nodes *nodeSet) bool {
	return d.perNode || s.reach == nodes || !slices.ContainsFunc(s.reach.list, func(n int32) bool { return !nodes.has(n) })
}

// uneven is a spread constraint, with the pods that make it rule out domains: those with maxSkew more pods
// than the one with the fewest, which may have none.
type uneven struct {
	*counter
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

func (w *Prover) addUneven(s *podClass, p *nodeSearch) {
	for _, c := range s.spreads {
		u := uneven{counter: c.counter, others: -convert.Int(c.own), fill: max(c.skew+1-convert.Int(c.own), 1)}
		for _, of := range c.classes {
			u.others += of.pods
		}
		u.sizes = w.sizesOf(c.domains, p.nodes)
		u.single = len(u.sizes) == 0 || u.sizes[0] <= 1
		u.open = c.least <= 1 && c.size > 0 && c.size <= len(u.sizes) && u.sizes[c.size-1] > 0
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
			most = u.size - 1
		}
		return sum(u.sizes[:min(max(u.others, 0)/u.fill, most)])
	}
	full := max(u.others-convert.Int(known.spread[u.counter]), 0) / u.fill
	return sum(p.capacity.shares[:min(full, len(p.capacity.shares))])
}

func sum(shares []float64) float64 {
	total := 0.0
	for _, share := range shares {
		total += share
	}
	return total
}
