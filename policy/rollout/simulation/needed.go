package simulation

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// Needed is an image that pods which a drain can evict have to find on the nodes of a pool.
type Needed struct {
	Image, Pool string
	// Pod is one of them ("namespace/name").
	Pod string
	// Always is set if the kubelet asks the registry for one of them even where the image is there.
	Always bool
	// OwnSecrets is set if one of them brings a pull secret of its own, which the pull of a PinnedImageSet
	// does not have.
	OwnSecrets bool
}

// Needs returns what would have to be on the nodes of each pool so that no drain of any of its nodes needs a
// registry, sorted by pool and image: the images of all pods that drains evict and that are made again, for each pool
// on whose nodes those may run. Pods of DaemonSets and static ones stay where their images are. Input needs only the
// Cluster and Stop; pools that no rollout takes, as they are paused or degraded, count too.
func Needs(in Input) []Needed {
	in.Pull = nil
	in.Forecast = in.Cluster.Members()
	in.Forecast.Pools = slices.Clone(in.Forecast.Pools)
	for i := range in.Forecast.Pools {
		p := &in.Forecast.Pools[i]
		p.Release()
		p.Decision.Drains = true
	}
	w := scheduling.NewCluster(in)
	type key struct{ pool, image string }
	found := map[key]Needed{}
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Stays || p.At < 0 || p.IsNeverReplaced() {
			continue
		}
		for _, pool := range poolsOf(w, p) {
			for _, pull := range p.PodClass.Made {
				at := key{pool, w.Images.Names[pull.Image]}
				n, known := found[at]
				if !known {
					n = Needed{Image: at.image, Pool: pool, Pod: w.Pods[int32(i)].FullName()}
				}
				n.Always = n.Always || pull.Policy == corev1.PullAlways
				n.OwnSecrets = n.OwnSecrets || pull.HasOwnSecrets()
				found[at] = n
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Needed) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Image, b.Image)) })
}

// poolsOf returns the pools on whose nodes p may run, by index.
func poolsOf(w *scheduling.Cluster, p *scheduling.Pod) []string {
	var names []string
	for _, n := range p.PodClass.Eligible.List {
		if pool := w.Nodes[n].Pool; pool >= 0 && !slices.Contains(names, w.Pools[pool].Name) {
			names = append(names, w.Pools[pool].Name)
		}
	}
	return names
}
