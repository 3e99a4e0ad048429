package status

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// placing lists what objects show to keep a pod from the nodes that it may run on. It explains the
// decision of the scheduler, and makes none.
type placing struct {
	*diagnosis
	pod           *rollout.Pod
	eligible      []*corev1.Node // those that its constraints on nodes allow
	apart, beside []domains
	spread        []spread
}

// domains is a term of (anti-)affinity, with the pods that it selects by the value of their node's label.
type domains struct {
	key  string
	pods map[string][]*rollout.Pod
}

// spread is a topologySpreadConstraint, with the number of pods by the value of their node's label.
type spread struct {
	corev1.TopologySpreadConstraint
	counts map[string]int
	least  int
}

// obstacle is the reason why a pod cannot run on a node.
type obstacle struct {
	why string // "" for nothing that is known
	// holder is the pod that holds the place, nil for none.
	holder *rollout.Pod
}

func (d *diagnosis) placing(pod *rollout.Pod) placing {
	p := placing{diagnosis: d, pod: pod}
	if pod.Spec == nil {
		return p
	}
	for _, n := range d.Cluster.Nodes {
		if p.mayRunOn(n) {
			p.eligible = append(p.eligible, n)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		p.apart = p.domains(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		p.beside = p.domains(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, c := range pod.Spec.Spread {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			p.spread = append(p.spread, p.spreadOf(c))
		}
	}
	return p
}

// mayRunOn reports whether the selectors, affinities to nodes, tolerations and volumes of the pod
// allow a node.
func (p *placing) mayRunOn(n *corev1.Node) bool {
	spec := p.pod.Spec
	for _, claim := range spec.Claims {
		if selector := p.Cluster.Volumes[p.pod.Namespace+"/"+claim]; selector != nil {
			if s, err := nodeaffinity.NewNodeSelector(selector); err != nil || !s.Match(n) {
				return false
			}
		}
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && !spec.Tolerates(t) {
			return false
		}
	}
	fits, err := spec.RequiredNodes().Match(n)
	return fits && err == nil
}

// domains returns the pods that terms are about.
func (p *placing) domains(terms []corev1.PodAffinityTerm) []domains {
	var all []domains
	for _, term := range terms {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			continue
		}
		d := domains{term.TopologyKey, map[string][]*rollout.Pod{}}
		for namespace, pods := range p.of {
			if !p.isAbout(term, namespace) {
				continue
			}
			for _, other := range pods {
				n := p.nodes[other.Node]
				if n != nil && other != p.pod && !other.Ended && other.Spec != nil && selector.Matches(labels.Set(other.Spec.Labels)) {
					d.pods[n.Labels[d.key]] = append(d.pods[n.Labels[d.key]], other)
				}
			}
		}
		all = append(all, d)
	}
	return all
}

// isAbout reports whether a term of (anti-)affinity is about the pods of a namespace.
func (p *placing) isAbout(term corev1.PodAffinityTerm, namespace string) bool {
	if slices.Contains(term.Namespaces, namespace) {
		return true
	}
	if term.NamespaceSelector == nil {
		return len(term.Namespaces) == 0 && namespace == p.pod.Namespace
	}
	selector, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	return err == nil && selector.Matches(p.Cluster.Namespaces[namespace])
}

// spreadOf counts the pods that a constraint is about.
func (p *placing) spreadOf(c corev1.TopologySpreadConstraint) spread {
	s := spread{c, map[string]int{}, 0}
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return s
	}
	for _, n := range p.eligible {
		value, ok := n.Labels[c.TopologyKey]
		if !ok {
			continue
		}
		s.counts[value] += 0
		for _, other := range p.on[n.Name] {
			if other.Namespace == p.pod.Namespace && !other.Deleted && other.Spec != nil && selector.Matches(labels.Set(other.Spec.Labels)) {
				s.counts[value]++
			}
		}
	}
	if len(s.counts) > 0 {
		s.least = slices.Min(slices.Collect(maps.Values(s.counts)))
	}
	return s
}

// obstacle returns what keeps the pod from an eligible node. All pods that a drain evicts are taken to
// have left the node that is being drained.
func (p *placing) obstacle(n *corev1.Node) obstacle {
	leaves := func(other *rollout.Pod) bool { return isBeingDrained(n) && other.IsEvictable() && other.Node == n.Name }
	var there []*rollout.Pod
	for _, other := range p.on[n.Name] {
		if other != p.pod && !other.Ended && other.Spec != nil && !leaves(other) {
			there = append(there, other)
		}
	}
	for _, o := range []obstacle{p.byRequests(n, there), p.byPorts(there), p.byPods(n, leaves), p.bySpread(n)} {
		if o.why != "" {
			return o
		}
	}
	return obstacle{}
}

// byRequests is about CPU, memory and the like. It names the first pod holding them that does not end, or
// else the largest.
func (p *placing) byRequests(n *corev1.Node, there []*rollout.Pod) obstacle {
	for name, wanted := range p.pod.Spec.Requests {
		all, ok := n.Status.Allocatable[name]
		if !ok {
			continue
		}
		left := all.DeepCopy()
		var holder *rollout.Pod
		for _, other := range there {
			request, has := other.Spec.Requests[name]
			left.Sub(request)
			if has && (holder == nil || !holder.Deleted && (other.Deleted || request.Cmp(holder.Spec.Requests[name]) > 0)) {
				holder = other
			}
		}
		if left.Cmp(wanted) >= 0 {
			continue
		}
		why := fmt.Sprintf("it asks for %s of %s, and %s of %s is left", wanted.String(), name, left.String(), all.String())
		if holder != nil {
			held := holder.Spec.Requests[name]
			why += fmt.Sprintf("; pod %s holds %s", named(holder), held.String())
		}
		return obstacle{why, holder}
	}
	return obstacle{}
}

// byPorts is about ports on the node's own addresses.
func (p *placing) byPorts(there []*rollout.Pod) obstacle {
	for _, other := range there {
		for _, port := range p.pod.Spec.HostPorts {
			if slices.ContainsFunc(other.Spec.HostPorts, port.Conflicts) {
				return obstacle{fmt.Sprintf("pod %s has port %d there", named(other), port.Port), other}
			}
		}
	}
	return obstacle{}
}

// byPods is about pods that it may not be beside, or has to be.
func (p *placing) byPods(n *corev1.Node, leaves func(*rollout.Pod) bool) obstacle {
	for _, d := range p.apart {
		value, ok := n.Labels[d.key]
		if !ok {
			continue
		}
		if i := slices.IndexFunc(d.pods[value], func(other *rollout.Pod) bool { return !leaves(other) }); i >= 0 {
			return obstacle{fmt.Sprintf("it may not be beside pod %s (anti-affinity by %s)", named(d.pods[value][i]), d.key), d.pods[value][i]}
		}
	}
	for _, d := range p.beside {
		if value, ok := n.Labels[d.key]; !ok || len(d.pods[value]) == 0 {
			return obstacle{why: fmt.Sprintf("no pod is there that it has to be beside (affinity by %s)", d.key)}
		}
	}
	return obstacle{}
}

// bySpread is about topologySpreadConstraints.
func (p *placing) bySpread(n *corev1.Node) obstacle {
	for _, s := range p.spread {
		value, ok := n.Labels[s.TopologyKey]
		if more := s.counts[value] + 1 - s.least; ok && more > int(s.MaxSkew) {
			return obstacle{why: fmt.Sprintf("%s %s would have %d more of them than another, and may have %d (spread)", s.TopologyKey, value, more, s.MaxSkew)}
		}
	}
	return obstacle{}
}

// named says which pod it is, and whether it should not be there any more.
func named(p *rollout.Pod) string {
	if p.Deleted {
		return p.FullName() + ", which is being deleted and has not ended,"
	}
	return p.FullName()
}

// isBeingDrained reports whether MCO has cordoned a node, and drains it.
func isBeingDrained(n *corev1.Node) bool {
	return n.Spec.Unschedulable && rollout.ReportOf(n).IsDraining()
}
