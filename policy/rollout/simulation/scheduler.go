package simulation

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// placement is the position of all pods in the course of a rollout, with the counts of the scheduler.
type placement struct {
	w    *cluster
	node []int32 // by pod
	// left is what nodes have left of each resource, one after the other: all that there can be where
	// that is not known.
	left []int64
	// counts are by counter and domain; a counter that counts nothing has no map.
	counts []map[int32]int32
	totals []int32
	// fewest is the least of the counts of each counter, -1 where it has to be found out again.
	fewest []int32
	// cordoned are the nodes that take no pods, apart from those that tolerate it.
	cordoned []bool
	// open is for counters that leave cordoned nodes out: how many nodes of each domain are not
	// cordoned. There counts their pods on each node, cordoned or not.
	open  map[domainKey]map[int32]int32
	there map[int32]map[*counter]int32
}

func (w *cluster) newPlacement(v assumption) *placement {
	p := &placement{
		w: w, node: make([]int32, len(w.pods)), left: make([]int64, 0, len(w.nodes)*len(w.resources)),
		counts: make([]map[int32]int32, len(w.counters)), totals: make([]int32, len(w.counters)), fewest: slices.Repeat([]int32{-1}, len(w.counters)), cordoned: make([]bool, len(w.nodes)),
	}
	for n := range w.nodes {
		alloc := w.nodes[n].alloc
		if alloc == nil {
			alloc = slices.Repeat([]int64{plenty}, len(w.resources))
		}
		p.left = append(p.left, alloc...)
		p.cordoned[n] = w.nodes[n].cordoned
	}
	p.openAll()
	p.enter(v)
	for i := range w.pods {
		p.node[i] = noNode
		if w.pods[i].node >= 0 {
			p.put(int32(i), w.pods[i].node)
		}
		if w.ask(1) {
			break
		}
	}
	return p
}

// openAll enters the nodes that are not cordoned.
func (p *placement) openAll() {
	p.open, p.there = map[domainKey]map[int32]int32{}, map[int32]map[*counter]int32{}
	for _, c := range p.w.counters {
		key := domainKey{c.domains, c.only}
		if !c.uncordoned || p.open[key] != nil {
			continue
		}
		p.open[key] = map[int32]int32{}
		for _, n := range c.only.list {
			if !p.cordoned[n] {
				p.open[key][c.domains.of[n]]++
			}
		}
	}
}

// cordon says whether a node is cordoned from now on.
func (p *placement) cordon(n int32, is bool) {
	if p.cordoned[n] == is {
		return
	}
	p.cordoned[n] = is
	by := int32(1)
	if is {
		by = -1
	}
	for key, open := range p.open {
		if !key.nodes.has(n) {
			continue
		}
		d := key.of[n]
		if open[d] += by; open[d] == 0 {
			delete(open, d)
		}
	}
	for c, pods := range p.there[n] {
		p.tally(c, c.domains.of[n], by*pods)
	}
}

func (p *placement) put(pod, n int32) {
	p.node[pod] = n
	p.add(p.w.pods[pod].podClass, n, 1, false)
}

func (p *placement) remove(pod int32) {
	if n := p.node[pod]; n >= 0 {
		p.add(p.w.pods[pod].podClass, n, -1, false)
	}
	p.node[pod] = noNode
}

// add counts pods of a class on a node; leaving says that they are being deleted.
func (p *placement) add(s *podClass, n, by int32, leaving bool) {
	left := p.leftOn(n)
	for r, amount := range s.requests {
		left[r] -= int64(by) * amount
	}
	for _, c := range s.counted {
		d := c.domains.of[n]
		if d < 0 || c.only != nil && !c.only.has(n) || leaving && c.isSpread {
			continue
		}
		if c.uncordoned {
			if p.there[n] == nil {
				p.there[n] = map[*counter]int32{}
			}
			p.there[n][c] += by
			if p.cordoned[n] {
				continue
			}
		}
		p.tally(c, d, by)
	}
}

func (p *placement) tally(c *counter, domain, by int32) {
	if p.counts[c.id] == nil {
		p.counts[c.id] = map[int32]int32{}
	}
	p.totals[c.id] += by
	p.fewest[c.id] = -1
	if p.counts[c.id][domain] += by; p.counts[c.id][domain] == 0 {
		delete(p.counts[c.id], domain)
	}
}

// obstruction is the reason why a pod cannot go to a node, "" for none.
type obstruction string

// The obstructions that keep pods from nodes.
const (
	notSelected   obstruction = "its node selector, node affinity or volumes"
	tainted       obstruction = "taints"
	notAlive      obstruction = "not being ready"
	notEligible   obstruction = "its node selector, node affinity or volumes, taints, or not being ready"
	isCordoned    obstruction = "a cordon"
	noRoom        obstruction = "what it requests"
	portTaken     obstruction = "a port of the host that is in use"
	antiAffinity  obstruction = "anti-affinity"
	noAffinity    obstruction = "affinity to pods that are not there"
	spreadUneven  obstruction = "topology spread"
	notTheDefault obstruction = "its scheduling gates, or a scheduler of its own"
)

var obstructions = []obstruction{notSelected, tainted, notAlive, isCordoned, noRoom, portTaken, antiAffinity, noAffinity, spreadUneven}

// ruledOut is obstructed, and says more of nodes that are not eligible.
func (p *placement) ruledOut(s *podClass, n int32) obstruction {
	why := p.obstructed(s, n)
	switch {
	case why != notEligible:
		return why
	case !p.w.candidates.find(s, filter{affinity: true, volumes: true}).has(n):
		return notSelected
	case !p.w.candidates.find(s, filter{affinity: true, volumes: true, taints: true}).has(n):
		return tainted
	case !p.w.nodes[n].alive:
		return notAlive
	default:
		return isCordoned
	}
}

// obstructed says what keeps a pod of s from node n (the filters of kube-scheduler). The pod
// must not be counted anywhere.
func (p *placement) obstructed(s *podClass, n int32) obstruction {
	switch {
	case !s.eligible.has(n):
		return notEligible
	case p.cordoned[n] && !s.toleratesCordon:
		return isCordoned
	case !p.fits(s, n):
		return noRoom
	}
	for _, c := range s.noneOf {
		if d := c.domains.of[n]; d >= 0 && p.counts[c.id][d] > 0 {
			if c.domains.key == hostPorts {
				return portTaken
			}
			return antiAffinity
		}
	}
	for i := range s.someOf {
		if !p.hasCompany(&s.someOf[i], n) {
			return noAffinity
		}
	}
	for i := range s.spreads {
		if !p.spreads(&s.spreads[i], n) {
			return spreadUneven
		}
	}
	return ""
}

func (p *placement) fits(s *podClass, n int32) bool {
	left := p.leftOn(n)
	for r, amount := range s.requests {
		if amount > 0 && amount > left[r] {
			return false
		}
	}
	return true
}

func (p *placement) leftOn(n int32) []int64 {
	of := len(p.w.resources)
	return p.left[int(n)*of : (int(n)+1)*of]
}

// plenty is more than pods can ask for, and little enough to be added to.
const plenty = int64(1) << 62

// hasCompany restates satisfyPodAffinity (interpodaffinity/filtering.go).
func (p *placement) hasCompany(a *Affinity, n int32) bool {
	company, first := true, true
	for _, c := range a.counters {
		d := c.domains.of[n]
		if d < 0 {
			return false
		}
		company = company && p.counts[c.id][d] > 0
		first = first && p.totals[c.id] == 0
	}
	return company || first && a.own
}

func (p *placement) spreads(c *Spread, n int32) bool {
	d := c.domains.of[n]
	if d < 0 {
		return false
	}
	here, least := int(p.counts[c.id][d])+convert.Int(c.own), p.least(c)
	return here-least <= c.skew
}

// least returns how many pods the domain with the fewest has. There are none where domains
// are missing.
func (p *placement) least(c *Spread) int {
	counts, size := p.counts[c.id], c.size
	if c.uncordoned {
		size = len(p.open[domainKey{c.domains, c.only}])
	}
	if len(counts) < size || size < c.least || len(counts) == 0 {
		return 0
	}
	if p.fewest[c.id] < 0 {
		p.fewest[c.id] = slices.Min(slices.Collect(maps.Values(counts)))
	}
	return int(p.fewest[c.id])
}
