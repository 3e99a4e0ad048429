package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The limits of PinnedImageSets (github.com/openshift/api, machineconfiguration/v1): images of a set, and sets
// of a pool (MachineConfigPoolSpec.PinnedImageSets, as many as MachineConfigNodes can tell of).
const (
	MaxPinnedImages = 500
	MaxPinnedSets   = 100
)

// Pinning is the state of a PinnedImageSet on a node of a pool that takes it.
type Pinning struct {
	Pool, Node string
	Set        *mcfgv1.PinnedImageSet
	// Missing is why it is not proved that the node holds all images of the set as it is now, as a
	// clause without its subject ("is still pulling them"), "" if it is proved.
	Missing string
	// Failed is set where the node could not pull or pin them.
	Failed bool
}

// Pinnings returns those of all nodes that pools update, in the order of Cluster.Pools, their nodes and the
// sets.
//
// MCO's daemon sets currentGeneration once CRI-O holds all images of all sets of the node's pools and has them
// pinned (pkg/daemon/pinned_image_set.go, sync). It tells only of the sets of the node's own pool: of those of
// pool worker on a node of a custom pool, nothing is proved.
func (c Cluster) Pinnings() []Pinning {
	if len(c.PinnedSets) == 0 {
		return nil
	}
	told := map[string]*NodePins{}
	for i := range c.NodePins {
		told[c.NodePins[i].Node] = &c.NodePins[i]
	}
	members := newMembership(c.Pools, c.Nodes)
	unread := ""
	for _, resource := range []string{"machineconfignodes", "pinnedimagesets"} {
		if slices.Contains(c.Unknown, resource) {
			unread = "may not hold them any more: " + resource + " could not be read"
		}
	}
	var all []Pinning
	for _, pool := range c.Pools {
		for _, set := range c.PinnedSets {
			if !TakesPinnedSet(pool, set) {
				continue
			}
			for _, node := range members.nodes[pool.Name] {
				p := Pinning{Pool: pool.Name, Node: node.Name, Set: set}
				p.Missing, p.Failed = missingPins(pool, node, set, told[node.Name])
				p.Missing = cmp.Or(p.Missing, unread)
				all = append(all, p)
			}
		}
	}
	return all
}

// TakesPinnedSet reports whether MCO gives a set to a pool: its machineConfigSelector selects the set by its
// labels, and one that is empty selects nothing (getPoolsForPinnedImageSet in
// pkg/controller/pinnedimageset/pinned_image_set.go).
func TakesPinnedSet(pool *mcfgv1.MachineConfigPool, set metav1.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(set.GetLabels()))
}

// PinNodes returns the nodes that pull the images of sets of a pool, by name: those that it updates and, for worker, those that custom
// pools update and it selects as well (GetPoolsForNode in MCO's pkg/helpers/helpers.go, which the daemon asks).
func (c Cluster) PinNodes(pool *mcfgv1.MachineConfigPool) []*corev1.Node {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector)
	var nodes []*corev1.Node
	for by, of := range newMembership(c.Pools, c.Nodes).nodes {
		for _, node := range of {
			also := pool.Name == workerPool && by != masterPool && by != arbiterPool && err == nil && selector.Matches(labels.Set(node.Labels))
			if by == pool.Name || also {
				nodes = append(nodes, node)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// missingPins returns Pinning.Missing and Pinning.Failed.
func missingPins(pool *mcfgv1.MachineConfigPool, node *corev1.Node, set *mcfgv1.PinnedImageSet, told *NodePins) (missing string, failed bool) {
	if set.DeletionTimestamp != nil {
		return "is about to forget them: the set is being deleted", false
	}
	if !slices.ContainsFunc(pool.Spec.PinnedImageSets, func(r mcfgv1.PinnedImageSetRef) bool { return r.Name == set.Name }) {
		return fmt.Sprintf("has not been told: MCO has not given the set to pool %s yet", pool.Name), false
	}
	if told == nil {
		return "has no MachineConfigNode that tells", false
	}
	i := slices.IndexFunc(told.Sets, func(s mcfgv1.MachineConfigNodeStatusPinnedImageSet) bool { return s.Name == set.Name })
	switch {
	case told.Pool != pool.Name:
		return fmt.Sprintf("tells of pool %s by its MachineConfigNode", told.Pool), false
	case i < 0:
		return "does not tell of the set", false
	}
	s := told.Sets[i]
	switch {
	case set.Generation == 0:
		return "tells of a generation, and that of the set is not known", false
	case int64(s.LastFailedGeneration) == set.Generation && s.LastFailedGenerationError != "" && !told.Works:
		return "could not pull or pin them: " + s.LastFailedGenerationError, true
	case int64(s.CurrentGeneration) != set.Generation || int64(s.DesiredGeneration) != set.Generation:
		return fmt.Sprintf("holds generation %d, not %d", s.CurrentGeneration, set.Generation), told.Fails
	case told.Settled.IsZero():
		return "is still pulling them", told.Fails
	case !told.Works:
		return "does not say that all is well (PinnedImageSetsDegraded)", told.Fails
	case told.Settled.Before(set.CreationTimestamp.Time): // of another set that had this name
		return "has not looked since the set was created", false
	case !isReady(node):
		return "is not ready", false
	default:
		return "", false
	}
}

// isReady reports whether the kubelet reports Ready. Where that is not so, what it reported before proves
// nothing: the disk may be another.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Held returns the references that nodes certainly hold for as long as the PinnedImageSets stay, by node.
func (c Cluster) Held() map[string][]string {
	held := map[string][]string{}
	for _, p := range c.Pinnings() {
		if p.Missing != "" {
			continue
		}
		for _, image := range p.Set.Spec.PinnedImages {
			held[p.Node] = append(held[p.Node], string(image.Name))
		}
	}
	return held
}
