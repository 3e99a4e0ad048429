package simulation

import (
	"cmp"
	"maps"
	"slices"
)

// Moved is an image of pods that drains evict and that are replaced, where at least one node that they may
// go to has to pull it: the node does not have it, or its kubelet asks the registry all the same.
type Moved struct {
	Image, Namespace string
	// Pool is that of such a node, "" if it is of none.
	Pool string
	// Pods is how many such pods there are, Pod one of them ("namespace/name").
	Pods int
	Pod  string
}

// moved returns those of all pods, sorted by image, namespace and pool.
func moved(w *cluster) []Moved {
	type key struct {
		image     int32
		namespace string
		pool      int
	}
	found := map[key]Moved{}
	where := map[*podClass][]int{} // by the image that is pulled: a pool, or notPulled
	for i := range w.pods {
		p := &w.pods[i]
		if p.stays || p.node < 0 || p.isNeverReplaced() || p.Deleted || !w.nodes[p.node].drained {
			continue
		}
		pools, known := where[p.podClass]
		if !known {
			for _, pull := range p.podClass.pulls {
				pools = append(pools, pulledIn(w, pull, p))
			}
			where[p.podClass] = pools
		}
		for k, pull := range p.podClass.pulls {
			if pools[k] == notPulled {
				continue
			}
			at := key{pull.image, p.Namespace, pools[k]}
			m, known := found[at]
			if !known {
				m = Moved{Image: w.images.names[pull.image], Namespace: p.Namespace, Pod: w.pods[int32(i)].FullName()}
				if pools[k] >= 0 {
					m.Pool = w.pools[pools[k]].Name
				}
			}
			m.Pods++
			found[at] = m
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Moved) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pool, b.Pool))
	})
}

// notPulled stands for no node; -1 is the pool of nodes that are in none.
const notPulled = -2

// pulledIn returns the pool of a node to which p may go and whose kubelet pulls the image.
func pulledIn(w *cluster, pull imagePull, p *pod) int {
	for _, n := range p.goesTo() {
		w.ask(1)
		if w.images.asks(pull, n) {
			return w.nodes[n].pool
		}
	}
	return notPulled
}
