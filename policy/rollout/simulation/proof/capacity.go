package proof

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// demand is the demand of pods that may go to the same nodes, with the requests of each.
type demand struct {
	reach    *scheduling.NodeSet
	priority int32
	requests []int64
	pods     int
	behind   int // leftBehind
}

// mobileDemand is the demand of all pods that drains evict or that wait for a node. The requests of all
// others are fixed.
type mobileDemand struct {
	groups []demand
	fixed  [][]int64 // by node
	known  map[capacityKey]capacity
}

// capacities finds out what nodes have for pods.
type capacities struct {
	*scheduling.Cluster
	moving *mobileDemand // once it was worked out
}

type capacityKey struct {
	set      *scheduling.NodeSet
	requests string
	priority int32
	cordon   bool
}

// capacity lists the nodes that are certain to fit a pod, whatever other pods do. Each counts as a
// fraction of the largest of them.
type capacity struct {
	// shares are those of nodes, the largest first; total is their sum.
	shares []float64
	total  float64
	// taken is how many of the largest nodes all the other pods can fill at most.
	taken float64
	// cordoned is how much of the total drains can take away at the same time, and least how much less
	// that is, at least, if one of them takes away nothing.
	cordoned, least float64
	// largest is the most of each resource that a node has left.
	largest []int64
}

func (w *capacities) demand() *mobileDemand {
	if w.moving != nil {
		return w.moving
	}
	m := &mobileDemand{fixed: make([][]int64, len(w.Nodes)), known: map[capacityKey]capacity{}}
	for n := range w.Nodes {
		m.fixed[n] = make([]int64, len(w.Resources))
	}
	for i := range w.Pods {
		if p := &w.Pods[i]; p.Stays && p.At >= 0 {
			for r, amount := range p.PodClass.Requests {
				m.fixed[p.At][r] += amount
			}
		}
	}
	for n := range w.Nodes {
		for _, l := range w.Nodes[n].Leaving {
			for r, amount := range l.PodClass.Requests {
				m.fixed[n][r] += amount * int64(convert.Int(!l.Ended))
			}
		}
	}
	type key struct {
		set      int
		priority int32
		requests string
	}
	groups := map[key]int{}
	for _, s := range w.Classes {
		if s.Mobile == 0 {
			continue
		}
		k := key{s.Reach.ID, s.Spec.Priority, scheduling.Packed(s.Requests)}
		at, ok := groups[k]
		if !ok {
			at = len(m.groups)
			groups[k] = at
			m.groups = append(m.groups, demand{reach: s.Reach, priority: s.Spec.Priority, requests: s.Requests})
		}
		m.groups[at].pods += s.Mobile
		m.groups[at].behind += w.leftBehind(s)
	}
	w.moving = m
	return m
}

// leftBehind returns how many pods of a class may have been evicted and not end. Each holds up the drain
// of a node, so that it is on one that is cordoned.
func (w *capacities) leftBehind(s *scheduling.PodClass) int {
	if s.Keeps == 0 {
		return 0
	}
	drains := 0
	for i := range w.Pools {
		drains += convert.Int(w.Pools[i].Drains) * min(w.Pools[i].Capacity, len(w.Pools[i].Order))
	}
	return s.Keeps * drains
}

// capacity returns that for a pod of s on some of the nodes that it is eligible for.
func (w *capacities) capacity(s *scheduling.PodClass, nodes *scheduling.NodeSet) capacity {
	requests := w.rounded(s, nodes)
	key := capacityKey{set: nodes, requests: scheduling.Packed(requests), cordon: s.ToleratesCordon, priority: -1 << 31}
	if outranks(s, nodes) {
		key.priority = s.Spec.Priority
	}
	m := w.demand()
	if known, ok := m.known[key]; ok {
		return known.without(s, requests)
	}
	free, largest := w.free(nodes, requests)
	r := capacity{largest: largest}
	byPool := map[int][]float64{}
	for i, n := range nodes.List {
		share := max(shareOf(free[i], largest, requests), 0)
		if at := w.Nodes[n]; at.Drained {
			byPool[at.Pool] = append(byPool[at.Pool], share)
		}
		if share > 0 {
			r.shares = append(r.shares, share)
			r.total += share
		}
	}
	least := 1.0
	slices.SortFunc(r.shares, func(a, b float64) int { return cmp.Compare(b, a) })
	for pool, shares := range byPool {
		if s.ToleratesCordon {
			break
		}
		slices.SortFunc(shares, func(a, b float64) int { return cmp.Compare(b, a) })
		shares = shares[:min(len(shares), w.Pools[pool].Capacity)]
		r.cordoned += sum(shares)
		least = min(least, shares[len(shares)-1])
	}
	if len(byPool) > 0 {
		r.least = least
	}
	for _, group := range m.groups {
		if w.Ask(1); group.reach.Overlaps(nodes) && group.priority >= key.priority {
			r.taken += float64(group.pods+group.behind*convert.Int(s.ToleratesCordon)) * weight(group.requests, largest, requests)
		}
	}
	m.known[key] = r
	return r.without(s, requests)
}

// outranks reports whether only pods of the same or a higher priority can take room from s. It would
// preempt others, which counts only where drains move those anyway.
func outranks(s *scheduling.PodClass, nodes *scheduling.NodeSet) bool {
	return s.Spec.Preempts && !nodes.Staying
}

// without takes a pod of s itself out of what others request.
func (r capacity) without(s *scheduling.PodClass, requests []int64) capacity {
	if s.Mobile > 0 {
		r.taken -= weight(s.Requests, r.largest, requests)
	}
	return r
}

// rounded returns what a pod of s requests, rounded up to keep the number of different amounts small.
func (w *capacities) rounded(s *scheduling.PodClass, nodes *scheduling.NodeSet) []int64 {
	const steps = 64
	rounded := slices.Clone(s.Requests)
	if len(nodes.List) <= steps {
		return rounded // exact, where it costs nothing
	}
	most := w.Nodes[nodes.List[0]].Alloc
	for r := range rounded {
		if most == nil || rounded[r] == 0 || most[r] < steps || r == 0 {
			continue
		}
		unit := most[r] / steps
		rounded[r] = (rounded[r] + unit - 1) / unit * unit
	}
	return rounded
}

// free returns the resources that each node has left for pods that move once the pod is there, nil
// where it does not fit; and the most of each resource that any node has left.
func (w *capacities) free(nodes *scheduling.NodeSet, requests []int64) (free [][]int64, largest []int64) {
	m := w.demand()
	largest = make([]int64, len(requests))
	free = make([][]int64, len(nodes.List))
	left := make([]int64, len(requests)*len(nodes.List))
	for i, n := range nodes.List {
		alloc := w.Nodes[n].Alloc
		if alloc == nil {
			continue
		}
		of := left[i*len(requests) : (i+1)*len(requests)]
		fits := true
		for r, amount := range requests {
			of[r] = alloc[r] - m.fixed[n][r] - amount
			fits = fits && (of[r] >= 0 || amount == 0)
		}
		if !fits {
			continue
		}
		free[i] = of
		for r := range of {
			largest[r] = max(largest[r], of[r])
		}
	}
	return free, largest
}

// shareOf returns the fraction of the largest node that a node is, by its scarcest resource.
func shareOf(free, largest, requests []int64) float64 {
	if free == nil {
		return 0
	}
	share := 1.0
	for r, amount := range requests {
		if amount > 0 && largest[r] > 0 {
			share = min(share, float64(free[r])/float64(largest[r]))
		}
	}
	return share
}

// weight returns the fraction of the largest node that a pod can take from another with these requests.
func weight(of, largest, requests []int64) float64 {
	w := 0.0
	for r, amount := range requests {
		switch {
		case amount == 0 || of[r] == 0:
		case of[r] >= largest[r]:
			return 1
		default:
			w = max(w, float64(of[r])/float64(largest[r]))
		}
	}
	return w
}

func sum(shares []float64) float64 {
	total := 0.0
	for _, share := range shares {
		total += share
	}
	return total
}
