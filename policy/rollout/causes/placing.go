package causes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// eligible returns the nodes that the selectors, affinity to nodes, tolerations and volumes of a pod allow, cordoned or
// not. Which of them has a place for it is the scheduler's to say, which it does in the pod's status.
func (d *diagnosis) eligible(p *rollout.Pod) []*corev1.Node {
	if p.Spec == nil {
		return nil
	}
	kind := podKind{p.Namespace, p.Spec}
	nodes, known := d.allowed[kind]
	if !known {
		required := p.Spec.RequiredNodes()
		nodes = slices.DeleteFunc(slices.Clone(d.Cluster.Nodes), func(n *corev1.Node) bool {
			fits, err := required.Match(n)
			return !fits || err != nil || !isTolerated(p.Spec, n) || !d.hasVolumes(p, n)
		})
		d.allowed[kind] = nodes
	}
	return nodes
}

// isTolerated reports whether pods tolerate the taints of a node, but for a cordon.
func isTolerated(spec *rollout.PodSpec, n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && !spec.Tolerates(t) {
			return false
		}
	}
	return true
}

// hasVolumes reports whether the volumes of a pod can be used on a node.
func (d *diagnosis) hasVolumes(p *rollout.Pod, n *corev1.Node) bool {
	for _, claim := range p.Spec.Claims {
		if selector := d.Cluster.Volumes[p.Namespace+"/"+claim].Nodes; selector != nil {
			if s, err := nodeaffinity.NewNodeSelector(selector); err != nil || !s.Match(n) {
				return false
			}
		}
	}
	return true
}
