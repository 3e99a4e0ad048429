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

// The pools that MCO treats in a way of their own.
const (
	masterPool  = "master"
	workerPool  = "worker"
	arbiterPool = "arbiter"
)

// Unmanaged is a node that is in no pool, and keeps what it has.
type Unmanaged struct {
	Node string
	// Why completes a sentence about the node: "is selected by no pool".
	Why string
}

// membership lists the nodes that each pool updates, by the name of the pool.
type membership struct {
	nodes     map[string][]*corev1.Node
	unmanaged []Unmanaged
}

// newMembership restates GetPoolsForNode and ListPools (pkg/helpers/helpers.go): a node that
// is a master is updated with the masters, whatever other pools select it; a custom pool
// takes a node over from the workers; and a node of two custom pools stays as it is.
func newMembership(pools []*mcfgv1.MachineConfigPool, nodes []*corev1.Node) membership {
	m := membership{nodes: map[string][]*corev1.Node{}}
	selectors, broken := nodeSelectors(pools)
	for _, node := range nodes {
		pool, why := "", broken
		switch {
		case IsWindows(node):
			why = "runs Windows"
		case broken == "":
			pool, why = primaryPool(node, pools, selectors)
		}
		if pool == "" {
			m.unmanaged = append(m.unmanaged, Unmanaged{node.Name, why})
			continue
		}
		m.nodes[pool] = append(m.nodes[pool], node)
	}
	slices.SortFunc(m.unmanaged, func(a, b Unmanaged) int { return strings.Compare(a.Node, b.Node) })
	return m
}

// nodeSelectors returns those of pools, or why MCO finds no pool for any node: it goes
// through all of them for each.
func nodeSelectors(pools []*mcfgv1.MachineConfigPool) ([]labels.Selector, string) {
	selectors := make([]labels.Selector, len(pools))
	for i, pool := range pools {
		var err error
		if selectors[i], err = metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector); err != nil {
			return nil, fmt.Sprintf("cannot be told a pool: the nodeSelector of %s is invalid: %v", pool.Name, err)
		}
	}
	return selectors, ""
}

func primaryPool(node *corev1.Node, pools []*mcfgv1.MachineConfigPool, selectors []labels.Selector) (pool, why string) {
	var builtIn, custom []string
	for i, selector := range selectors {
		if selector.Empty() || !selector.Matches(labels.Set(node.Labels)) { // an empty one selects nothing
			continue
		}
		if name := pools[i].Name; name == masterPool || name == workerPool {
			builtIn = append(builtIn, name)
		} else {
			custom = append(custom, name)
		}
	}
	slices.Sort(builtIn)
	slices.Sort(custom)
	switch {
	case len(custom) > 1: // even if it is a master
		return "", "is selected by pools " + strings.Join(custom, " and ")
	case slices.Contains(builtIn, masterPool):
		return masterPool, ""
	case len(custom) == 1:
		return custom[0], ""
	case len(builtIn) == 1:
		return workerPool, ""
	default:
		return "", "is selected by no pool"
	}
}

// Node is a node that a pool updates.
type Node struct {
	Name, Zone string
	// Rank is the place in the order in which MCO takes the nodes of the pool, from 0. Nodes
	// of one zone that were created in the same second have the same: MCO does not order
	// them.
	Rank int
	// Unavailable is why MCO counts the node as unavailable ("is cordoned"), "" if it does
	// not. It takes none that is.
	Unavailable string
	// Updating is set where that is so because another rendered config is on its way to the
	// node, and will pass.
	Updating bool
}

// IsSkipped reports whether MCO takes the node only after somebody has seen to it.
func (n Node) IsSkipped() bool { return n.Unavailable != "" && !n.Updating }

// inOrder returns nodes in the order in which MCO takes them (sortNodeList,
// node_controller.go:1942): by zone, those without one last, and within a zone by age. In
// pool master the node on which MCO itself runs comes last (filterControlPlaneCandidateNodes,
// node_controller.go:1733); last is its name, "" for none.
func inOrder(nodes []*corev1.Node, last string) []Node {
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(byZoneAndAge(a, b, last), strings.Compare(a.Name, b.Name))
	})
	ordered := make([]Node, len(sorted))
	for i, node := range sorted {
		why, updating := unavailable(node)
		ordered[i] = Node{
			Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Rank: i,
			Unavailable: why, Updating: updating,
		}
		if i > 0 && byZoneAndAge(sorted[i-1], node, last) == 0 {
			ordered[i].Rank = ordered[i-1].Rank
		}
	}
	return ordered
}

func byZoneAndAge(a, b *corev1.Node, last string) int {
	zoneA, hasA := a.Labels[corev1.LabelTopologyZone]
	zoneB, hasB := b.Labels[corev1.LabelTopologyZone]
	return cmp.Or(
		FalseFirst(a.Name == last, b.Name == last),
		FalseFirst(!hasA, !hasB),
		strings.Compare(zoneA, zoneB),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
	)
}

// FalseFirst compares two truths for sorting.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
