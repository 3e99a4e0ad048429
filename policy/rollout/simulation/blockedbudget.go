package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// blockedBudget is a budget that may refuse an eviction for good, whatever nodes the scheduler chooses and
// in whatever order things happen.
//
// The proof considers the final state, when nothing can happen any more. The cordoned nodes are then
// those whose drains wait for budgets, in each pool at most as many as it updates at once. A budget that
// refuses has lost as many pods as it can spare: they cannot start where they are, or no node fits them.
// A pod that is certain to start wherever it goes, and certain to find a node in that state, is not lost.
// A budget that can lose only fewer does not refuse.
type blockedBudget struct {
	budget  *budget
	missing []Missing
	// byImage is how many of the missing lack an image.
	byImage int
	why     string
	pod     int32 // one that cannot be evicted
	budgets []string
}

// Prover finds the budgets of a cluster that may refuse an eviction for good. It remembers what is used more than once.
type Prover struct {
	*cluster
	searches []*nodeSearch // by podClass.id
	sizes    map[domainKey][]float64
	moving   *mobileDemand
}

func newProver(w *cluster) *Prover {
	return &Prover{cluster: w, searches: make([]*nodeSearch, len(w.classes)), sizes: map[domainKey][]float64{}}
}

// blockedBudgets returns all budgets that may refuse an eviction for good.
func (w *Prover) blockedBudgets(v assumption) []blockedBudget {
	var all []blockedBudget
	if !slices.ContainsFunc(w.nodes, func(n node) bool { return n.drained }) {
		return nil
	}
	for _, b := range w.budgets {
		if w.stopped {
			return all
		}
		if b.drained == 0 {
			continue
		}
		if found, ok := w.judge(b, v, false); ok {
			all = append(all, found)
		}
	}
	if len(all) != 1 || len(all[0].budgets) > 1 || w.leavers() {
		return all
	}
	// All cordoned nodes have a pod of this one budget then.
	found, ok := w.judge(all[0].budget, v, true)
	if !ok {
		return nil
	}
	return []blockedBudget{found}
}

// judge returns why a budget is blocked, false if it is certain to let its remaining pods go some time.
// Alone says that no other budget refuses an eviction for good.
func (w *Prover) judge(b *budget, v assumption, alone bool) (blockedBudget, bool) {
	found := blockedBudget{budget: b, pod: -1, budgets: []string{b.name()}}
	spared := false
	var unreadyPod, doubled int32 = -1, -1
	c := &circumstances{v: v, alone: alone, own: w.ownNodes(b), mobile: w.mobileClasses(b), unready: map[*podSet]int32{}}
	for _, i := range b.pods {
		p := &w.pods[i]
		if w.ask(2); !p.stays && len(p.podClass.budgets) > 1 && doubled < 0 {
			doubled = i
		}
		m, isLost := w.missing(i, c)
		if isLost {
			found.missing = append(found.missing, m)
			found.byImage += convert.Int(m.Image != "")
		}
		if !p.stays && p.state == unready {
			unreadyPod = i
		}
		switch {
		case p.stays:
		case !isLost && !spared:
			spared, found.pod = true, i
		case found.pod < 0: // it may become ready, whatever is wrong with it now
			found.pod = i
		}
	}
	if doubled >= 0 {
		return w.doubled(doubled), true
	}
	ready := len(b.pods) - len(found.missing)
	if found.pod >= 0 && !b.allows(healthy, ready+convert.Int(!spared)) {
		if !spared { // it is not lost itself
			found.missing = slices.DeleteFunc(found.missing, func(m Missing) bool { return m.Pod == w.pods[found.pod].FullName() })
		}
		found.why = b.reason(len(found.missing))
		return found, true
	}
	if unreadyPod >= 0 && !b.allows(unready, ready) {
		found.pod, found.why = unreadyPod, b.reason(len(found.missing))
		return found, true
	}
	return blockedBudget{}, false
}

// doubled is about a pod of more than one budget.
func (w *Prover) doubled(i int32) blockedBudget {
	p := &w.pods[i]
	return blockedBudget{budget: p.podClass.budgets[0], pod: i, why: tooManyBudgets, budgets: p.podClass.budgetNames()}
}

func (w *Prover) mobileClasses(b *budget) []*podClass {
	var classes []*podClass
	for _, i := range b.pods {
		if s := w.pods[i].podClass; s.mobile > 0 && (len(classes) == 0 || classes[len(classes)-1] != s) {
			classes = append(classes, s)
		}
	}
	slices.SortFunc(classes, func(a, b *podClass) int { return cmp.Compare(a.id, b.id) })
	return slices.Compact(classes)
}

// circumstances are the conditions under which a budget is judged.
type circumstances struct {
	v     assumption
	alone bool
	own   ownNodes
	// mobile are the classes of its pods that drains evict.
	mobile []*podClass
	// unready are the first pods of podSets that may not be ready.
	unready map[*podSet]int32
}

// missing reports whether a pod of a budget may be unready in the final state, and why.
func (w *Prover) missing(i int32, c *circumstances) (Missing, bool) {
	m, isLost := w.missingItself(i, c)
	p := &w.pods[i]
	if isLost || p.stays || p.set == nil {
		return m, isLost
	}
	first, known := c.unready[p.set]
	if !known {
		first = p.set.first(func(lower int32) bool {
			_, isLost := w.missingItself(lower, c)
			return isLost
		})
		c.unready[p.set] = first
	}
	m.Why, _ = p.set.waitsFor(w.cluster, i, first, c.v)
	return m, m.Why != ""
}

// missingItself is missing, apart from the other pods of a StatefulSet, for which it may have to wait.
func (w *Prover) missingItself(i int32, c *circumstances) (Missing, bool) {
	p := &w.pods[i]
	m := Missing{Pod: w.pods[i].FullName()}
	if p.node >= 0 {
		m.Node = w.nodes[p.node].Name
	}
	switch {
	case p.node == lostNode:
		m.Node, m.Why = p.Node, "is on a node that is not there"
	case p.state == unready:
		m.Why = "is not ready"
	case p.state == failing:
		return w.neverStarted(i, c.v, m)
	case p.stays:
		return m, false
	case p.isNeverReplaced():
		m.Why = "is not replaced when it is evicted"
	case p.Owner.Kind == "Job":
		m.Why = "may not be replaced when it is evicted"
	case p.podClass.waits():
		m.Why = "waits for its scheduling gates to be lifted, or has a scheduler of its own"
	default:
		return w.replaced(i, c)
	}
	return m, true
}

// neverStarted is about a pod that is on a node and has not started.
func (w *Prover) neverStarted(i int32, v assumption, m Missing) (Missing, bool) {
	p := &w.pods[i]
	if image := v.fails(p.podClass, p.node, false, holdings{}); image >= 0 {
		m.Image = w.images.names[image]
		return m, true
	}
	m.Why = "has not started"
	if p.Failing != "" {
		m.Why = "has not started (" + p.Failing + ")"
	}
	return m, !v.works || !p.FailsToPull() || p.Failing == "InvalidImageName" // which no pull helps
}

// replaced is about a pod that is evicted, or waits for a node.
func (w *Prover) replaced(i int32, c *circumstances) (Missing, bool) {
	p, v, own := &w.pods[i], c.v, c.own
	m := Missing{Pod: w.pods[i].FullName(), Moved: p.node >= 0}
	if n, image, updated, fails := v.mayFail(p.podClass, p.goesTo()); fails {
		m.Node, m.Updated, m.Image = w.nodes[n].Name, updated, w.images.names[image]
		return m, true
	}
	if p.guard {
		// It waits for its node while that is cordoned. One of these nodes has a pod of the
		// budget that is refused, which is not lost.
		if own.apart(c.alone) {
			return m, false
		}
		m.Why = fmt.Sprintf("can run on %s only, which may be cordoned", p.Node)
		return m, true
	}
	if why, _ := w.unmade(p, v); why != "" {
		m.Why = why
		return m, true
	}
	why := w.unplaced(p.podClass, c)
	if why == "" {
		return m, false
	}
	m.Why = fmt.Sprintf("may find no node: %s", why)
	return m, true
}

// unplaced says what may keep a pod from being placed while the budget refuses another one of
// its pods, which is on a cordoned node.
func (w *Prover) unplaced(s *podClass, c *circumstances) obstruction {
	nodeSearch := w.nodeSearchOf(s)
	switch nodeSearch.why {
	case "", notEligible, notTheDefault, noAffinity:
		return nodeSearch.why
	}
	if s.toleratesCordon { // no node is lost for a cordon
		return nodeSearch.why
	}
	return nodeSearch.short(w.cordons(s, c))
}

// cordons describes the cordoned nodes while the budget refuses a pod that is not of class s. That pod is
// on one of them.
func (w *Prover) cordons(s *podClass, c *circumstances) cordons {
	nodeSearch := w.nodeSearchOf(s)
	known := cordons{none: c.own.apart(c.alone) && len(s.reach.list) == 1, weight: maxWeight, spread: map[*counter]bool{}}
	rivals, others := 0, 0
	for _, u := range nodeSearch.uneven {
		known.spread[u.counter] = true
	}
	for _, other := range c.mobile {
		rivals += convert.Int(nodeSearch.rivalOf[other])
		others += convert.Int(!nodeSearch.rivalOf[other] && !nodeSearch.wide[other])
		known.weight = min(known.weight, w.demandOf(other, nodeSearch, s))
		for _, u := range nodeSearch.uneven {
			if !slices.Contains(u.classes, other) || !staysIn(u.domains, other, nodeSearch.nodes) {
				known.spread[u.counter] = false
			}
		}
	}
	for _, u := range nodeSearch.uneven {
		if known.spread[u.counter] && u.fill == 1 {
			known.ruledOut = known.ruledOut || !u.single
			known.none = known.none || c.alone
		}
	}
	if rivals == len(c.mobile) {
		known.rivals = 1
		known.none = known.none || c.alone
	}
	if others < len(c.mobile) {
		known.weight = 0 // their requests count with those of rivals
	}
	known.none = known.none || c.alone && known.weight >= maxWeight
	if known.none { // the pods on each cordoned node count already
		known.rivals, known.weight, known.spread = 0, 0, nil
	}
	return known
}

// maxWeight is the weight of a pod that takes a whole node.
const maxWeight = 1

// ownNodes are the nodes of pods that can run on one node only, or that operators put back on theirs
// (pod.guard).
type ownNodes struct {
	// crowded is set unless all pods of the budget have such a node, each another one.
	crowded bool
	// cordoned is how many of the nodes may be cordoned at the same time.
	cordoned int
}

// apart reports whether none of the pods waits for the node on which another one is refused, nor for
// any that is cordoned for another reason; alone says that there is no other reason.
func (h ownNodes) apart(alone bool) bool { return !h.crowded && (alone || h.cordoned <= 1) }

func (w *Prover) ownNodes(b *budget) ownNodes {
	h := ownNodes{}
	byPool, taken := map[int]int{}, map[int32]bool{}
	for _, i := range b.pods {
		p := &w.pods[i]
		if p.stays {
			continue
		}
		own := p.node
		if !p.guard && len(p.podClass.reach.list) == 1 {
			own = p.podClass.reach.list[0]
		} else if !p.guard {
			own = noNode
		}
		if own < 0 || taken[own] {
			h.crowded = true
			continue
		}
		taken[own] = true
		if at := w.nodes[own]; at.drained {
			byPool[at.pool]++
		}
	}
	for pool, nodes := range byPool {
		h.cordoned += min(nodes, w.pools[pool].capacity)
	}
	return h
}

// Missing is a pod that a budget counts as not ready.
type Missing struct {
	Pod string
	// Node is where it is, "" if it is on none. Updated says that the node has its new
	// configuration; Moved that the pod is the replacement of one that was evicted.
	Node    string
	Updated bool
	Moved   bool
	// Image is the one that it cannot pull, Why any other reason, as a clause.
	Image string
	Why   string
}
