package simulation

import (
	"cmp"
	"slices"
)

// Assured is the number of nodes of a pool that are updated whatever nodes the scheduler chooses, and in
// whatever order things happen. It may be lower than in every possible course, and is never higher.
type Assured struct {
	Pool    string
	Updated int
	// Of is how many nodes MCO takes for the change.
	Of int
}

// never stands for a group that no pool has.
const never = 1<<31 - 1

// assurance computes Assured, along the order in which MCO takes nodes. A budget refuses for good only
// once it has lost as many pods as it can spare, and of the pods that it can lose at all (blockedBudget),
// those on nodes that MCO has not taken yet are still there. So each pool has a first node whose drain can
// stall; the nodes before it are updated.
type assurance struct {
	w              *cluster
	blockedBudgets []blockedBudget
	// pushed is, by node, the highest priority of the pods that may push out others there.
	pushed []int32
	pool   int
	// group is, by node of the pool, its place in the order; nodes that MCO does not order have the same.
	group map[int32]int
	// stuck is, by node of the pool, the group with which the node's drain can end in a stall.
	stuck map[int32]int
	// arrivals are the pods that may come to nodes of a set, and not leave them.
	arrivals map[*nodeSet][]arrival
}

// arrival is pods that may have left their nodes once a group of nodes is taken (left), and may be refused
// on another node once a second group is (refused).
type arrival struct{ left, refused int }

// assured returns the Assured of all pools that take the change.
func (w *cluster) assured(blockedBudgets []blockedBudget) []Assured {
	a := &assurance{w: w, blockedBudgets: blockedBudgets, pushed: w.pushed()}
	all := make([]Assured, len(w.pools))
	for i := range w.pools {
		all[i] = Assured{Pool: w.pools[i].Name, Updated: a.updated(i), Of: len(w.pools[i].order)}
	}
	for i := range w.pools {
		if after := w.pools[i].after; after >= 0 && all[after].Updated < all[after].Of {
			all[i].Updated = 0
		}
	}
	return slices.DeleteFunc(all, func(sure Assured) bool { return sure.Of == 0 })
}

// updated returns how many nodes of a pool are updated at least. As many drains can be under way as the pool
// updates at once: when all of them are stalled, no other node is taken.
func (a *assurance) updated(i int) int {
	p := &a.w.pools[i]
	if !p.drains {
		return len(p.order)
	}
	a.enter(i)
	for from := 0; from < len(p.order) && !a.w.ask(1); {
		g := a.group[p.order[from]]
		to := from
		for to < len(p.order) && a.group[p.order[to]] == g {
			to++
		}
		earlier, stalled := 0, 0
		for at, n := range p.order[:to] {
			can := a.stuck[n] <= g
			stalled += b2i(can)
			earlier += b2i(can && at < from)
		}
		if stalled >= p.capacity {
			return max(from+max(1, p.capacity-earlier)-p.capacity, 0)
		}
		from = to
	}
	stalled := 0
	for _, g := range a.stuck {
		stalled += b2i(g < never)
	}
	return len(p.order) - stalled
}

// enter turns to pool i.
func (a *assurance) enter(i int) {
	p := &a.w.pools[i]
	a.pool, a.group, a.stuck, a.arrivals = i, map[int32]int{}, map[int32]int{}, map[*nodeSet][]arrival{}
	last := 0
	for at, n := range p.order {
		if at > 0 && !p.together(n, p.order[at-1], a.w) {
			last++
		}
		a.group[n], a.stuck[n] = last, never
	}
	for _, n := range p.order {
		if slices.ContainsFunc(a.w.nodes[n].leaving, func(l leaving) bool { return l.held }) {
			a.refusedOn(n, 0)
		}
	}
	for _, found := range a.blockedBudgets {
		a.addBudget(found)
	}
	for i := range a.w.pods {
		if p := &a.w.pods[i]; p.Finalizers != "" && !p.stays {
			a.add(p, 0)
		}
	}
	a.arrive()
}

// together reports whether MCO does not say which of two nodes it takes first. Those that are being
// updated already are under way at once.
func (p *pool) together(x, y int32, w *cluster) bool {
	a, b := p.Nodes[w.nodes[x].rank], p.Nodes[w.nodes[y].rank]
	return a.Updating == b.Updating && (a.Updating || a.Rank == b.Rank)
}

// addBudget adds the pods whose eviction a budget can refuse.
func (a *assurance) addBudget(found blockedBudget) {
	b := found.judged
	var lost []int // the groups with which they can be lost
	isLost := make(map[int32]bool, len(found.lost))
	for _, i := range found.lost {
		isLost[i] = true
		if g := a.left(&a.w.pods[i]); a.w.pods[i].state != healthy {
			lost = append(lost, -1)
		} else if g < never {
			lost = append(lost, g)
		}
	}
	slices.Sort(lost)
	// with returns the group with which so many pods can be lost that the budget refuses one.
	with := func(s podState, itself int) int {
		for n := range len(lost) + 1 {
			if a.w.ask(1); b.allows(s, len(b.pods)-n+itself) {
				continue
			}
			if n == 0 {
				return -1
			}
			return lost[n-1]
		}
		return never
	}
	healthyOne, lostOne, unreadyOne := with(healthy, 0), with(healthy, 1), with(unready, 0)
	for _, i := range b.pods {
		p := &a.w.pods[i]
		switch {
		case a.w.ask(1), p.stays:
		case len(p.podClass.budgets) > 1:
			a.add(p, -1)
		case p.state == unready:
			a.add(p, min(lostOne, unreadyOne))
		case isLost[i]:
			a.add(p, lostOne)
		default:
			a.add(p, healthyOne)
		}
	}
}

// left returns the group of the pool with which a pod can have left its node: -1 if that takes none of
// them, never if it stays.
func (a *assurance) left(p *pod) int {
	switch {
	case p.node < 0:
		return -1
	case p.stays:
		return never
	case p.podClass.spec.Priority < a.pushed[p.node]:
		return -1
	}
	of := a.w.nodes[p.node].pool
	if of == a.pool {
		return a.group[p.node]
	}
	for range a.w.pools { // those that are taken after the pool
		if of = a.w.pools[of].after; of == a.pool {
			return never
		} else if of < 0 {
			break
		}
	}
	return -1
}

// add adds a pod that can be refused from a group on, at its node and wherever it may go.
func (a *assurance) add(p *pod, refused int) {
	if refused == never {
		return
	}
	if p.node >= 0 {
		a.refusedOn(p.node, refused)
	}
	left := a.left(p)
	if left == never || p.isNeverReplaced() && p.node >= 0 || p.guard {
		return
	}
	a.arrivals[p.podClass.eligible] = append(a.arrivals[p.podClass.eligible], arrival{left, refused})
}

// refusedOn notes that a pod on a node can be refused from a group on, if the node is of the pool.
func (a *assurance) refusedOn(n int32, from int) {
	if before, ok := a.stuck[n]; ok {
		a.stuck[n] = min(before, max(from, a.group[n]))
	}
}

// arrive lets pods come to nodes that are not cordoned yet.
func (a *assurance) arrive() {
	for set, all := range a.arrivals {
		slices.SortFunc(all, func(x, y arrival) int { return cmp.Compare(x.left, y.left) })
		for i := 1; i < len(all); i++ {
			all[i].refused = min(all[i].refused, all[i-1].refused)
		}
		for _, n := range set.list {
			g, ok := a.group[n]
			if a.w.ask(1); !ok {
				continue
			}
			// The first that leaves with a later group.
			i, _ := slices.BinarySearchFunc(all, g, func(x arrival, g int) int { return cmp.Or(cmp.Compare(x.left, g), -1) })
			if i > 0 {
				a.refusedOn(n, all[i-1].refused)
			}
		}
	}
}

// pushed returns, by node, the highest priority of pods that may go there and push out others.
func (w *cluster) pushed() []int32 {
	bySet := map[*nodeSet]int32{}
	for _, s := range w.classes {
		if s.mobile > 0 && s.spec.Preempts && s.spec.Priority > w.lowest {
			before, ok := bySet[s.eligible]
			if !ok || before < s.spec.Priority {
				bySet[s.eligible] = s.spec.Priority
			}
		}
	}
	highest := make([]int32, len(w.nodes))
	for n := range highest {
		highest[n] = w.lowest
	}
	for set, priority := range bySet {
		for _, n := range set.list {
			w.ask(1)
			highest[n] = max(highest[n], priority)
		}
	}
	return highest
}
