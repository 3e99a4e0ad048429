package scheduling

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// Placement is the position of all pods in the course of a rollout, with the counts of the scheduler.
type Placement struct {
	w  *Cluster
	At []int32 // the node of each pod, NoNode for none
	// left is what nodes have left of each resource, one after the other: all that there can be where
	// that is not known.
	left []int64
	// counts are by counter and domain; a counter that counts nothing has no map.
	counts []map[int32]int32
	totals []int32
	// fewest is the least of the counts of each counter, -1 where it has to be found out again.
	fewest []int32
	// Cordoned are the nodes that take no pods, apart from those that tolerate it.
	Cordoned []bool
	// open is for counters that leave cordoned nodes out: how many nodes of each domain are not
	// cordoned. There counts their pods on each node, cordoned or not.
	open  map[DomainKey]map[int32]int32
	there map[int32]map[*Counter]int32
	// Changes grows with each change of where pods can go.
	Changes int
}

// NewPlacement places the pods where they are before the rollout.
func (w *Cluster) NewPlacement(v Assumption) *Placement {
	p := &Placement{
		w: w, At: make([]int32, len(w.Pods)), left: make([]int64, 0, len(w.Nodes)*len(w.Resources)),
		counts: make([]map[int32]int32, len(w.counters)), totals: make([]int32, len(w.counters)), fewest: slices.Repeat([]int32{-1}, len(w.counters)), Cordoned: make([]bool, len(w.Nodes)),
	}
	for n := range w.Nodes {
		alloc := w.Nodes[n].Alloc
		if alloc == nil {
			alloc = slices.Repeat([]int64{plenty}, len(w.Resources))
		}
		p.left = append(p.left, alloc...)
		p.Cordoned[n] = w.Nodes[n].cordoned
	}
	p.openAll()
	p.enter(v)
	for i := range w.Pods {
		p.At[i] = NoNode
		if w.Pods[i].At >= 0 {
			p.Put(int32(i), w.Pods[i].At)
		}
		if w.Ask(1) {
			break
		}
	}
	return p
}

// enter puts the pods that are leaving where they are.
func (p *Placement) enter(v Assumption) {
	for n := range p.w.Nodes {
		for _, l := range p.w.Nodes[n].Leaving {
			if v.Keeps(l) && !l.Ended {
				p.add(l.PodClass, int32(n), 1, true)
			}
		}
	}
}

// Leaves evicts a pod that stays behind on its node.
func (p *Placement) Leaves(pod int32) {
	n := p.At[pod]
	p.Remove(pod)
	p.add(p.w.Pods[pod].PodClass, n, 1, true)
}

// openAll enters the nodes that are not cordoned.
func (p *Placement) openAll() {
	p.open, p.there = map[DomainKey]map[int32]int32{}, map[int32]map[*Counter]int32{}
	for _, c := range p.w.counters {
		key := DomainKey{c.Domains, c.only}
		if !c.uncordoned || p.open[key] != nil {
			continue
		}
		p.open[key] = map[int32]int32{}
		for _, n := range c.only.List {
			if !p.Cordoned[n] {
				p.open[key][c.Domains.Of[n]]++
			}
		}
	}
}

// Cordon says whether a node is cordoned from now on.
func (p *Placement) Cordon(n int32, is bool) {
	if p.Cordoned[n] == is {
		return
	}
	p.Cordoned[n] = is
	p.Changes++
	by := int32(1)
	if is {
		by = -1
	}
	for key, open := range p.open {
		if !key.Nodes.Has(n) {
			continue
		}
		d := key.Of[n]
		if open[d] += by; open[d] == 0 {
			delete(open, d)
		}
	}
	for c, pods := range p.there[n] {
		p.tally(c, c.Domains.Of[n], by*pods)
	}
}

// Put places a pod that has no node.
func (p *Placement) Put(pod, n int32) {
	p.At[pod] = n
	p.add(p.w.Pods[pod].PodClass, n, 1, false)
}

// Remove takes a pod from its node, if it has one.
func (p *Placement) Remove(pod int32) {
	if n := p.At[pod]; n >= 0 {
		p.add(p.w.Pods[pod].PodClass, n, -1, false)
	}
	p.At[pod] = NoNode
}

// add counts pods of a class on a node; leaving says that they are being deleted.
func (p *Placement) add(s *PodClass, n, by int32, leaving bool) {
	p.Changes++
	left := p.leftOn(n)
	for r, amount := range s.Requests {
		left[r] -= int64(by) * amount
	}
	for _, c := range s.counted {
		d := c.Domains.Of[n]
		if d < 0 || c.only != nil && !c.only.Has(n) || leaving && c.isSpread {
			continue
		}
		if c.uncordoned {
			if p.there[n] == nil {
				p.there[n] = map[*Counter]int32{}
			}
			p.there[n][c] += by
			if p.Cordoned[n] {
				continue
			}
		}
		p.tally(c, d, by)
	}
}

func (p *Placement) tally(c *Counter, domain, by int32) {
	if p.counts[c.id] == nil {
		p.counts[c.id] = map[int32]int32{}
	}
	p.totals[c.id] += by
	p.fewest[c.id] = -1
	if p.counts[c.id][domain] += by; p.counts[c.id][domain] == 0 {
		delete(p.counts[c.id], domain)
	}
}

// Obstruction is the reason why a pod cannot go to a node, "" for none.
type Obstruction string

// The obstructions that keep pods from nodes.
const (
	notSelected   Obstruction = "its node selector, node affinity or volumes"
	tainted       Obstruction = "taints"
	notAlive      Obstruction = "not being ready"
	NotEligible   Obstruction = "its node selector, node affinity or volumes, taints, or not being ready"
	Cordoned      Obstruction = "a cordon"
	NoRoom        Obstruction = "what it requests"
	PortTaken     Obstruction = "a port of the host that is in use"
	AntiAffinity  Obstruction = "anti-affinity"
	NoAffinity    Obstruction = "affinity to pods that are not there"
	SpreadUneven  Obstruction = "topology spread"
	NotTheDefault Obstruction = "its scheduling gates, or a scheduler of its own"
)

// Obstructions are those of nodes, in the order in which they are told.
var Obstructions = []Obstruction{notSelected, tainted, notAlive, Cordoned, NoRoom, PortTaken, AntiAffinity, NoAffinity, SpreadUneven}

// RuledOut is Obstructed, and says more of nodes that are not eligible.
func (p *Placement) RuledOut(s *PodClass, n int32) Obstruction {
	why := p.Obstructed(s, n)
	switch {
	case why != NotEligible:
		return why
	case !p.w.candidates.find(s, filter{affinity: true, volumes: true}).Has(n):
		return notSelected
	case !p.w.candidates.find(s, filter{affinity: true, volumes: true, taints: true}).Has(n):
		return tainted
	case !p.w.Nodes[n].alive:
		return notAlive
	default:
		return Cordoned
	}
}

// Obstructed says what keeps a pod of s from node n (the filters of kube-scheduler). The pod
// must not be counted anywhere.
func (p *Placement) Obstructed(s *PodClass, n int32) Obstruction {
	switch {
	case !s.Eligible.Has(n):
		return NotEligible
	case p.Cordoned[n] && !s.ToleratesCordon:
		return Cordoned
	case !p.Fits(s, n):
		return NoRoom
	}
	for _, c := range s.NoneOf {
		if d := c.Domains.Of[n]; d >= 0 && p.counts[c.id][d] > 0 {
			if c.Domains.Key == HostPorts {
				return PortTaken
			}
			return AntiAffinity
		}
	}
	for i := range s.SomeOf {
		if !p.hasCompany(&s.SomeOf[i], n) {
			return NoAffinity
		}
	}
	for i := range s.Spreads {
		if !p.spreads(&s.Spreads[i], n) {
			return SpreadUneven
		}
	}
	return ""
}

// Fits reports whether a node has left what a pod requests.
func (p *Placement) Fits(s *PodClass, n int32) bool {
	left := p.leftOn(n)
	for r, amount := range s.Requests {
		if amount > 0 && amount > left[r] {
			return false
		}
	}
	return true
}

func (p *Placement) leftOn(n int32) []int64 {
	of := len(p.w.Resources)
	return p.left[int(n)*of : (int(n)+1)*of]
}

// plenty is more than pods can ask for, and little enough to be added to.
const plenty = int64(1) << 62

// hasCompany restates satisfyPodAffinity (interpodaffinity/filtering.go).
func (p *Placement) hasCompany(a *Affinity, n int32) bool {
	company, first := true, true
	for _, c := range a.counters {
		d := c.Domains.Of[n]
		if d < 0 {
			return false
		}
		company = company && p.counts[c.id][d] > 0
		first = first && p.totals[c.id] == 0
	}
	return company || first && a.own
}

func (p *Placement) spreads(c *Spread, n int32) bool {
	d := c.Domains.Of[n]
	if d < 0 {
		return false
	}
	here, least := int(p.counts[c.id][d])+convert.Int(c.Own), p.least(c)
	return here-least <= c.Skew
}

// least returns how many pods the domain with the fewest has. There are none where domains
// are missing.
func (p *Placement) least(c *Spread) int {
	counts, size := p.counts[c.id], c.Size
	if c.uncordoned {
		size = len(p.open[DomainKey{c.Domains, c.only}])
	}
	if len(counts) < size || size < c.Least || len(counts) == 0 {
		return 0
	}
	if p.fewest[c.id] < 0 {
		p.fewest[c.id] = slices.Min(slices.Collect(maps.Values(counts)))
	}
	return int(p.fewest[c.id])
}
