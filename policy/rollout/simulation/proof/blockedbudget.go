package proof

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// BlockedBudget is a budget that may refuse an eviction for good, whatever nodes the scheduler chooses and
// in whatever order things happen.
//
// The proof considers the final state, when nothing can happen any more. The cordoned nodes are then
// those whose drains wait for budgets, in each pool at most as many as it updates at once. A budget that
// refuses has lost as many pods as it can spare: they cannot start where they are, or no node fits them.
// A pod that is certain to start wherever it goes, and certain to find a node in that state, is not lost.
// A budget that can lose only fewer does not refuse.
type BlockedBudget struct {
	Budget  *scheduling.Budget
	Missing []Missing
	// ByImage is how many of the missing lack an image.
	ByImage int
	Why     string
	Pod     int32 // one that cannot be evicted
	Budgets []string
}

// Prover finds the blocked budgets of a cluster. It remembers what does not depend on an assumption.
type Prover struct{ nodeSearches }

// New returns the Prover of a cluster.
func New(w *scheduling.Cluster) *Prover {
	return &Prover{nodeSearches{capacities{Cluster: w}, make([]*nodeSearch, len(w.Classes)), map[scheduling.DomainKey][]float64{}}}
}

// BlockedBudgets returns all budgets that may refuse an eviction for good.
func (w *Prover) BlockedBudgets(v scheduling.Assumption) []BlockedBudget {
	var all []BlockedBudget
	if !slices.ContainsFunc(w.Nodes, func(n scheduling.Node) bool { return n.Drained }) {
		return nil
	}
	for _, b := range w.Budgets {
		if w.Stopped {
			return all
		}
		if b.Drained == 0 {
			continue
		}
		if found, ok := w.judge(b, v, false); ok {
			all = append(all, found)
		}
	}
	if len(all) != 1 || len(all[0].Budgets) > 1 || w.HasLeavers() {
		return all
	}
	// All cordoned nodes have a pod of this one budget then.
	found, ok := w.judge(all[0].Budget, v, true)
	if !ok {
		return nil
	}
	return []BlockedBudget{found}
}

// judge returns why a budget is blocked, false if it is certain to let its remaining pods go some time.
// Alone says that no other budget refuses an eviction for good.
func (w *Prover) judge(b *scheduling.Budget, v scheduling.Assumption, alone bool) (BlockedBudget, bool) {
	found := BlockedBudget{Budget: b, Pod: -1, Budgets: []string{b.FullName()}}
	spared := false
	var unreadyPod, doubled int32 = -1, -1
	c := &circumstances{v: v, alone: alone, own: w.ownNodes(b), mobile: w.mobileClasses(b), unready: map[*scheduling.PodSet]int32{}}
	for _, i := range b.Pods {
		p := &w.Pods[i]
		if w.Ask(2); !p.Stays && len(p.PodClass.Budgets) > 1 && doubled < 0 {
			doubled = i
		}
		m, isLost := w.missing(i, c)
		if isLost {
			found.Missing = append(found.Missing, m)
			found.ByImage += convert.Int(m.Image != "")
		}
		if !p.Stays && p.State == scheduling.Unready {
			unreadyPod = i
		}
		switch {
		case p.Stays:
		case !isLost && !spared:
			spared, found.Pod = true, i
		case found.Pod < 0: // it may become ready, whatever is wrong with it now
			found.Pod = i
		}
	}
	if doubled >= 0 {
		class := w.Pods[doubled].PodClass
		return BlockedBudget{Budget: class.Budgets[0], Pod: doubled, Why: scheduling.TooManyBudgets, Budgets: class.BudgetNames()}, true
	}
	ready := len(b.Pods) - len(found.Missing)
	if found.Pod >= 0 && !b.Allows(scheduling.Healthy, ready+convert.Int(!spared)) {
		if !spared { // it is not lost itself
			found.Missing = slices.DeleteFunc(found.Missing, func(m Missing) bool { return m.Pod == w.Pods[found.Pod].FullName() })
		}
		found.Why = b.Reason(len(found.Missing))
		return found, true
	}
	if unreadyPod >= 0 && !b.Allows(scheduling.Unready, ready) {
		found.Pod, found.Why = unreadyPod, b.Reason(len(found.Missing))
		return found, true
	}
	return BlockedBudget{}, false
}

func (w *Prover) mobileClasses(b *scheduling.Budget) []*scheduling.PodClass {
	var classes []*scheduling.PodClass
	for _, i := range b.Pods {
		if s := w.Pods[i].PodClass; s.Mobile > 0 && (len(classes) == 0 || classes[len(classes)-1] != s) {
			classes = append(classes, s)
		}
	}
	slices.SortFunc(classes, func(a, b *scheduling.PodClass) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(classes)
}

// circumstances are the conditions under which a budget is judged.
type circumstances struct {
	v     scheduling.Assumption
	alone bool
	own   ownNodes
	// mobile are the classes of its pods that drains evict.
	mobile []*scheduling.PodClass
	// unready are the first pods of PodSets that may not be ready.
	unready map[*scheduling.PodSet]int32
}

// missing reports whether a pod of a budget may be unready in the final state, and why.
func (w *Prover) missing(i int32, c *circumstances) (Missing, bool) {
	m, isLost := w.missingItself(i, c)
	p := &w.Pods[i]
	if isLost || p.Stays || p.Set == nil {
		return m, isLost
	}
	first, known := c.unready[p.Set]
	if !known {
		first = p.Set.First(func(lower int32) bool {
			_, isLost := w.missingItself(lower, c)
			return isLost
		})
		c.unready[p.Set] = first
	}
	m.Why, _ = p.Set.WaitsFor(w.Cluster, i, first, c.v)
	return m, m.Why != ""
}

// missingItself is missing, apart from the other pods of a StatefulSet, for which it may have to wait.
func (w *Prover) missingItself(i int32, c *circumstances) (Missing, bool) {
	p := &w.Pods[i]
	m := Missing{Pod: w.Pods[i].FullName()}
	if p.At >= 0 {
		m.Node = w.Nodes[p.At].Name
	}
	switch {
	case p.At == scheduling.LostNode:
		m.Node, m.Why = p.Node, "is on a node that is not there"
	case p.State == scheduling.Unready:
		m.Why = "is not ready"
	case p.State == scheduling.Failing:
		return w.neverStarted(i, c.v, m)
	case p.Settled():
		return m, false
	case p.IsNeverReplaced():
		m.Why = "is not replaced when it is evicted"
	case !p.Guard && !p.IsMadeAgain():
		m.Why = "may not be replaced when it is evicted"
	case p.PodClass.Waits():
		m.Why = "waits for its scheduling gates to be lifted, or has a scheduler of its own"
	default:
		return w.replaced(i, c)
	}
	return m, true
}

// neverStarted is about a pod that is on a node and has not started.
func (w *Prover) neverStarted(i int32, v scheduling.Assumption, m Missing) (Missing, bool) {
	p := &w.Pods[i]
	if image := v.Fails(p.PodClass.Pulls, p.At, false, scheduling.Holdings{}); image >= 0 {
		m.Image = w.Images.Names[image]
		return m, true
	}
	m.Why = "has not started"
	if p.Failing != "" {
		m.Why = "has not started (" + p.Failing + ")"
	}
	return m, !v.Works || !p.FailsToPull() || p.Failing == "InvalidImageName" // which no pull helps
}

// replaced is about a pod that is evicted, or waits for a node.
func (w *Prover) replaced(i int32, c *circumstances) (Missing, bool) {
	p, v, own := &w.Pods[i], c.v, c.own
	m := Missing{Pod: w.Pods[i].FullName(), Moved: p.At >= 0}
	if n, image, updated, fails := v.MayFail(p.PodClass, p.GoesTo()); fails {
		m.Node, m.Updated, m.Image = w.Nodes[n].Name, updated, w.Images.Names[image]
		return m, true
	}
	if p.Guard {
		// It waits for its node while that is cordoned. One of these nodes has a pod of the
		// budget that is refused, which is not lost.
		if own.apart(c.alone) {
			return m, false
		}
		m.Why = fmt.Sprintf("can run on %s only, which may be cordoned", p.Node)
		return m, true
	}
	if m.Why, _ = w.Unmade(p, v); m.Why == "" && !v.Sure {
		m.Why = p.Unplaceable
	}
	if m.Why != "" {
		return m, true
	}
	why := w.unplaced(p.PodClass, c)
	if why == "" {
		return m, false
	}
	m.Why = fmt.Sprintf("may find no node: %s", why)
	return m, true
}

// unplaced says what may keep a pod from being placed while the budget refuses another one of
// its pods, which is on a cordoned node.
func (w *Prover) unplaced(s *scheduling.PodClass, c *circumstances) scheduling.Obstruction {
	nodeSearch := w.nodeSearchOf(s)
	switch nodeSearch.why {
	case "", scheduling.NotEligible, scheduling.NotTheDefault, scheduling.NoAffinity:
		return nodeSearch.why
	}
	if s.ToleratesCordon { // no node is lost for a cordon
		return nodeSearch.why
	}
	return nodeSearch.short(w.cordons(s, c))
}

// cordons describes the cordoned nodes while the budget refuses a pod that is not of class s. That pod is
// on one of them.
func (w *Prover) cordons(s *scheduling.PodClass, c *circumstances) cordons {
	nodeSearch := w.nodeSearchOf(s)
	known := cordons{none: c.own.apart(c.alone) && len(s.Reach.List) == 1, weight: maxWeight, spread: map[*scheduling.Counter]bool{}}
	rivals, others := 0, 0
	for _, u := range nodeSearch.uneven {
		known.spread[u.Counter] = true
	}
	for _, other := range c.mobile {
		rivals += convert.Int(nodeSearch.rivalOf[other])
		others += convert.Int(!nodeSearch.rivalOf[other] && !nodeSearch.wide[other])
		known.weight = min(known.weight, w.demandOf(other, nodeSearch, s))
		for _, u := range nodeSearch.uneven {
			if !slices.Contains(u.Classes, other) || !staysIn(u.Domains, other, nodeSearch.nodes) {
				known.spread[u.Counter] = false
			}
		}
	}
	for _, u := range nodeSearch.uneven {
		if known.spread[u.Counter] && u.fill == 1 {
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
// (Pod.Guard).
type ownNodes struct {
	// crowded is set unless all pods of the budget have such a node, each another one.
	crowded bool
	// cordoned is how many of the nodes may be cordoned at the same time.
	cordoned int
}

// apart reports whether none of the pods waits for the node on which another one is refused, nor for
// any that is cordoned for another reason; alone says that there is no other reason.
func (h ownNodes) apart(alone bool) bool { return !h.crowded && (alone || h.cordoned <= 1) }

func (w *Prover) ownNodes(b *scheduling.Budget) ownNodes {
	h := ownNodes{}
	byPool, taken := map[int]int{}, map[int32]bool{}
	for _, i := range b.Pods {
		p := &w.Pods[i]
		if p.Settled() {
			continue
		}
		own := p.At
		if !p.Guard && len(p.PodClass.Reach.List) == 1 {
			own = p.PodClass.Reach.List[0]
		} else if !p.Guard {
			own = scheduling.NoNode
		}
		if own < 0 || taken[own] {
			h.crowded = true
			continue
		}
		taken[own] = true
		if at := w.Nodes[own]; at.Drained {
			byPool[at.Pool]++
		}
	}
	for pool, nodes := range byPool {
		h.cordoned += min(nodes, w.Pools[pool].Capacity)
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
