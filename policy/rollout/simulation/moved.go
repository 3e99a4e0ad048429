package simulation

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// Moved is an image of pods that drains evict and that are replaced, where at least one node that they may
// go to has to pull it: the node does not have it, or its kubelet asks the registry all the same.
type Moved struct {
	Image, Namespace string
	// Pool is that of such a node, "" if it is of none.
	Pool string
	// Pods is how many such pods there are, Pod one of them ("namespace/name"). Waiting is how many wait for the image before any drain, as
	// their kubelets could not pull it.
	Pods, Waiting int
	Pod           string
}

// moved returns those of all pods, sorted by image, namespace and pool.
func moved(w *scheduling.Cluster) []Moved {
	type key struct {
		image     int32
		namespace string
		pool      int
	}
	found := map[key]Moved{}
	where := map[*scheduling.PodClass][]int{} // by the image that is pulled: a pool, or notPulled
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Stays || p.At < 0 || p.IsNeverReplaced() || p.Deleted || !w.Nodes[p.At].Drained {
			continue
		}
		pools, known := where[p.PodClass]
		if !known {
			for _, pull := range p.PodClass.Made {
				pools = append(pools, pulledIn(w, pull, p))
			}
			where[p.PodClass] = pools
		}
		for k, pull := range p.PodClass.Made {
			if pools[k] == notPulled {
				continue
			}
			at := key{pull.Image, p.Namespace, pools[k]}
			m, known := found[at]
			if !known {
				m = Moved{Image: w.Images.Names[pull.Image], Namespace: p.Namespace, Pod: w.Pods[int32(i)].FullName()}
				if pools[k] >= 0 {
					m.Pool = w.Pools[pools[k]].Name
				}
			}
			m.Pods++
			m.Waiting += convert.Int(p.FailsToPull() && p.FailingImage() == m.Image)
			found[at] = m
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Moved) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pool, b.Pool))
	})
}

// notPulled stands for no node; -1 is the pool of nodes that are in none.
const notPulled = -2

// pulledIn returns the pool of a node to which p may go and whose kubelet pulls the image: where time is up and nodes
// are not known to be good for it, that of its own.
func pulledIn(w *scheduling.Cluster, pull scheduling.ImagePull, p *scheduling.Pod) int {
	if pull.Policy == corev1.PullNever {
		return notPulled
	}
	if w.Stopped {
		return w.Nodes[p.At].Pool
	}
	for _, n := range p.GoesTo() {
		w.Ask(1)
		if w.Images.Asks(pull, n) {
			return w.Nodes[n].Pool
		}
	}
	return notPulled
}
