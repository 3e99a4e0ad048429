package scheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Counter counts pods by the topology domain that they are in. All constraints of pods on other pods
// are evaluated by counters: affinity, anti-affinity, spread, and ports on the host, whose domains are
// the nodes.
type Counter struct {
	id int
	// Domains says which domain a node is in; only counts the pods of these nodes alone, nil
	// means all.
	Domains *Domains
	only    *NodeSet
	// Classes are those whose pods are counted.
	Classes []*PodClass
	// Size is how many domains there are, for spread. Fixed are those with a pod that stays.
	Size  int
	fixed map[int32]bool
	// taken are the domains with a pod that stays, or is leaving.
	taken map[int32]bool
	// isSpread says that it does not count pods that are being deleted, as the others do; uncordoned
	// that neither pods nor domains of cordoned nodes count.
	isSpread, uncordoned bool
}

// Domains are the domains of one topology.
type Domains struct {
	Key string
	Of  []int32 // by node, -1 for a node without the label
	N   int
	// partial says that nodes are in no domain, PerNode that each domain is one node.
	partial, PerNode bool
}

// Affinity is a required affinity to pods: the domain of each counter must have a pod that all of the
// counters count. Own says that the pod itself is counted, and may be the first.
type Affinity struct {
	counters []*Counter
	own      bool
}

// Spread is a topologySpreadConstraint with DoNotSchedule.
type Spread struct {
	*Counter
	Skew, Least int // maxSkew, minDomains
	Own         bool
}

// topology finds domains by their key, and pod classes by their labels.
type topology struct {
	w        *Cluster
	domains  map[string]*Domains
	byLabel  map[string][]*PodClass // "namespace\x00key\x00value"
	inSpace  map[string][]*PodClass
	spaces   []string        // those of inSpace
	labels   map[string]bool // the keys that nodes have
	counters map[string]*Counter
	// counting and sizes are what pods with like constraints share: the nodes whose pods count, and
	// how many domains these are in.
	counting map[countingKey]*NodeSet
	sizes    map[DomainKey]int
}

// DomainKey identifies the domains of one topology that some nodes are in.
type DomainKey struct {
	*Domains
	Nodes *NodeSet
}

// countingKey identifies nodes by a set, and by the topologies that they have to be in.
type countingKey struct {
	nodes *NodeSet
	keys  string
}

// HostPorts is the key of the topology whose domains are the nodes, and nowhere that of one that no node is in; no label has them.
const (
	HostPorts = ""
	nowhere   = "-"
)

func (w *Cluster) addConstraints() {
	t := &topology{w: w, domains: map[string]*Domains{}, byLabel: map[string][]*PodClass{}, inSpace: map[string][]*PodClass{}, labels: map[string]bool{}, counters: map[string]*Counter{}, counting: map[countingKey]*NodeSet{}, sizes: map[DomainKey]int{}}
	w.keys = t
	for n := range w.Nodes {
		for key := range w.Nodes[n].Labels {
			t.labels[key] = true
		}
	}
	for _, s := range w.Classes {
		t.inSpace[s.namespace] = append(t.inSpace[s.namespace], s)
		for key, value := range s.Spec.Labels {
			at := s.namespace + "\x00" + key + "\x00" + value
			t.byLabel[at] = append(t.byLabel[at], s)
		}
	}
	t.spaces = slices.Sorted(maps.Keys(t.inSpace))
	t.addPorts()
	for _, s := range w.Classes {
		t.addAntiAffinity(s)
		t.addAffinity(s)
		t.addSpread(s)
		if w.Ask(5) {
			return
		}
	}
}

// known returns the key of a topology. All that no node has are one: a pod can name thousands of these.
func (t *topology) known(key string) string {
	if key == HostPorts || t.labels[key] {
		return key
	}
	return nowhere
}

func (t *topology) topology(key string) *Domains {
	key = t.known(key)
	if d, ok := t.domains[key]; ok {
		return d
	}
	d := &Domains{Key: key, Of: make([]int32, len(t.w.Nodes))}
	in, values := 0, map[string]int32{}
	for n := range t.w.Nodes {
		value, ok := t.w.Nodes[n].Name, true
		if key != HostPorts {
			value, ok = t.w.Nodes[n].Labels[key]
		}
		d.Of[n] = -1
		if !ok {
			d.partial = true
			continue
		}
		in++
		at, seen := values[value]
		if !seen {
			at = int32(len(values)) //nolint:gosec // at most one for each node
			values[value] = at
		}
		d.Of[n] = at
	}
	d.N = len(values)
	d.PerNode = d.N == in
	t.domains[key] = d
	return d
}

// counter returns the counter with that identity; classes says whose pods it counts, if it is
// new.
func (t *topology) counter(id, key string, only *NodeSet, classes func() []*PodClass) *Counter {
	if c, ok := t.counters[id]; ok {
		return c
	}
	c := &Counter{id: len(t.w.counters), Domains: t.topology(key), only: only, Classes: classes()}
	for _, s := range c.Classes {
		s.counted = append(s.counted, c)
	}
	t.counters[id] = c
	t.w.counters = append(t.w.counters, c)
	return c
}

// addPorts makes a counter for each port on the host. Two conflict if protocol and port are
// the same, unless their addresses differ.
func (t *topology) addPorts() {
	users := map[rollout.HostPort][]*PodClass{}
	for _, s := range t.w.Classes {
		for _, port := range s.Spec.HostPorts {
			if port = normalPort(port); port.Port > 0 && !slices.Contains(users[port], s) {
				users[port] = append(users[port], s)
			}
		}
	}
	byNumber := map[rollout.HostPort][]rollout.HostPort{}
	for port := range users {
		number := rollout.HostPort{Protocol: port.Protocol, Port: port.Port}
		byNumber[number] = append(byNumber[number], port)
	}
	for _, s := range t.w.Classes {
		for _, port := range s.Spec.HostPorts {
			port = normalPort(port)
			others := byNumber[rollout.HostPort{Protocol: port.Protocol, Port: port.Port}]
			slices.SortFunc(others, func(a, b rollout.HostPort) int { return strings.Compare(a.IP, b.IP) })
			for _, other := range others {
				if port.Conflicts(other) {
					id := fmt.Sprintf("port %s %s %d", other.IP, other.Protocol, other.Port)
					s.never(t.counter(id, HostPorts, nil, func() []*PodClass { return users[other] }))
				}
			}
		}
	}
}

func normalPort(port rollout.HostPort) rollout.HostPort {
	if port.IP == "0.0.0.0" || port.IP == "::" {
		port.IP = ""
	}
	if port.Protocol == "" {
		port.Protocol = corev1.ProtocolTCP
	}
	return port
}

// never adds a counter that must not count a pod where s runs.
func (s *PodClass) never(c *Counter) {
	if !slices.Contains(s.NoneOf, c) {
		s.NoneOf = append(s.NoneOf, c)
	}
}

// addAntiAffinity adds the terms of s, which hold both ways: none that s selects may be where
// it goes, and those that it selects may not go where it is. All terms of one topology are one counter each
// way, which those that select the same share, as they are many where each pod of a StatefulSet is a class.
func (t *topology) addAntiAffinity(s *PodClass) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.PodAntiAffinity == nil {
		return
	}
	byKey := map[string][]matcher{}
	for _, term := range s.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if m, ok := t.matcher(s.namespace, &term, true); ok && t.labels[term.TopologyKey] {
			byKey[term.TopologyKey] = append(byKey[term.TopologyKey], m)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		selected := t.selected(key, byKey[key])
		s.never(selected)
		id := fmt.Sprintf("by %d", selected.id)
		by, known := t.counters[id]
		if !known {
			by = t.counter(id, key, nil, func() []*PodClass { return nil })
			for _, other := range selected.Classes {
				other.NoneOf = append(other.NoneOf, by)
			}
		}
		by.Classes = append(by.Classes, s)
		s.counted = append(s.counted, by)
	}
}

// selected returns the counter of the pods that any of the terms selects.
func (t *topology) selected(key string, terms []matcher) *Counter {
	id := "selected " + key + " " + identify(terms)
	if c, known := t.counters[id]; known {
		return c
	}
	var classes []*PodClass
	is := map[*PodClass]bool{}
	for _, m := range terms {
		if len(is) == len(t.w.Classes) {
			break
		}
		for _, s := range t.matching(m) {
			if !is[s] {
				is[s], classes = true, append(classes, s)
			}
		}
	}
	slices.SortFunc(classes, func(a, b *PodClass) int { return cmp.Compare(a.ID, b.ID) })
	ids := convert.Each(classes, func(s *PodClass) int64 { return int64(s.ID) })
	t.counters[id] = t.counter("these "+key+" "+Packed(ids), key, nil, func() []*PodClass { return classes })
	return t.counters[id]
}

// identify returns the same for the same terms.
func identify(terms []matcher) string {
	ids := convert.Each(terms, func(m matcher) string { return m.id })
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "\x00")
}

func (t *topology) addAffinity(s *PodClass) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.PodAffinity == nil {
		return
	}
	terms := s.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) == 0 {
		return
	}
	var matchers []matcher
	for _, term := range terms {
		m, ok := t.matcher(s.namespace, &term, false)
		if !ok {
			m = matcher{id: "nothing", selector: labels.Nothing()}
		}
		matchers = append(matchers, m)
	}
	all := identify(matchers)
	a := Affinity{}
	for _, term := range terms {
		key := t.known(term.TopologyKey)
		a.counters = append(a.counters, t.counter("all "+key+" "+all, key, nil, func() []*PodClass {
			return slices.DeleteFunc(t.matching(matchers[0]), func(other *PodClass) bool {
				t.w.Ask(1 + len(matchers)/20)
				return slices.ContainsFunc(matchers[1:], func(m matcher) bool {
					return !t.has(m, other.namespace) || !m.selector.Matches(labels.Set(other.Spec.Labels))
				})
			})
		}))
	}
	a.own = slices.Contains(a.counters[0].Classes, s)
	s.SomeOf = append(s.SomeOf, a)
}

// addSpread adds the constraints with DoNotSchedule (PodTopologySpread of the scheduler).
func (t *topology) addSpread(s *PodClass) {
	var hard []corev1.TopologySpreadConstraint
	for _, c := range s.Spec.Spread {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			hard = append(hard, c)
		}
	}
	for _, c := range hard {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		for _, key := range c.MatchLabelKeys {
			if value, ok := s.Spec.Labels[key]; ok {
				requirement, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
				selector = selector.Add(requirement...)
			}
		}
		m := matcher{id: s.namespace + " " + textOf(selector), spaces: []string{s.namespace}, selector: selector}
		only := t.countingNodes(s, hard, c)
		uncordoned := honorsTaints(c) && !s.ToleratesCordon
		counter := t.counter(fmt.Sprintf("spread %s %d %t %s", c.TopologyKey, only.ID, uncordoned, m.id), c.TopologyKey, only, func() []*PodClass { return t.matching(m) })
		counter.isSpread, counter.uncordoned = true, uncordoned
		counter.Size = t.size(DomainKey{counter.Domains, only})
		least := 1
		if c.MinDomains != nil {
			least = int(*c.MinDomains)
		}
		s.Spreads = append(s.Spreads, Spread{counter, int(c.MaxSkew), least, slices.Contains(counter.Classes, s)})
	}
}

// size returns how many domains nodes are in.
func (t *topology) size(key DomainKey) int {
	size, known := t.sizes[key]
	if !known {
		seen := map[int32]bool{}
		for _, n := range key.Nodes.List {
			seen[key.Of[n]] = true
		}
		size = len(seen)
		t.sizes[key] = size
	}
	return size
}

// countingNodes returns the nodes whose pods count for a constraint: those that have all the
// topologies, and that the pod could run on by its policies.
func (t *topology) countingNodes(s *PodClass, all []corev1.TopologySpreadConstraint, c corev1.TopologySpreadConstraint) *NodeSet {
	f := filter{affinity: true}
	if c.NodeAffinityPolicy != nil {
		f.affinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	f.taints = honorsTaints(c)
	keys := convert.Each(all, func(c corev1.TopologySpreadConstraint) string { return c.TopologyKey })
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return t.inAll(t.w.candidates.find(s, f), keys)
}

// inAll returns those of nodes that are in a domain of each topology.
func (t *topology) inAll(nodes *NodeSet, topologies []string) *NodeSet {
	key := countingKey{nodes, strings.Join(topologies, "\x00")}
	set, known := t.counting[key]
	if known {
		return set
	}
	in := slices.Clone(nodes.List)
	for _, topology := range topologies {
		of := t.topology(topology).Of
		in = slices.DeleteFunc(in, func(n int32) bool { return of[n] < 0 })
		t.w.Ask(1 + len(nodes.List)/20)
	}
	set = t.w.candidates.intern(in)
	t.counting[key] = set
	return set
}

// honorsTaints reports whether nodes whose taints keep the pod away do not count. A cordon is such a taint.
func honorsTaints(c corev1.TopologySpreadConstraint) bool {
	return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
}

// matcher selects pods of some namespaces: those that it names, and those with labels that within selects, nil for none.
type matcher struct {
	id               string
	spaces           []string
	within, selector labels.Selector
}

// has reports whether a matcher selects pods of a namespace.
func (t *topology) has(m matcher, space string) bool {
	of, known := t.w.in.Cluster.Namespaces[space]
	return slices.Contains(m.spaces, space) || m.within != nil && (m.within.Empty() || known && m.within.Matches(of))
}

// matcher returns whom a term of (anti-)affinity selects. Where the labels of namespaces are
// not known, a namespaceSelector selects all of them for wide, and otherwise none.
func (t *topology) matcher(namespace string, term *corev1.PodAffinityTerm, wide bool) (matcher, bool) {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		return matcher{}, false
	}
	m := matcher{spaces: slices.Clone(term.Namespaces), selector: selector}
	if term.NamespaceSelector == nil && len(m.spaces) == 0 {
		m.spaces = []string{namespace}
	}
	slices.Sort(m.spaces)
	m.spaces = slices.Compact(m.spaces)
	m.id = strings.Join(m.spaces, ",")
	if term.NamespaceSelector != nil {
		if m.within, err = metav1.LabelSelectorAsSelector(term.NamespaceSelector); err != nil {
			return matcher{}, false
		}
		m.id += "*" + m.within.String() // no name has a "*"
		if t.w.in.Cluster.Namespaces == nil && wide {
			m.within = labels.Everything()
		}
	}
	m.id += " " + textOf(selector)
	return m, true
}

// textOf is String, which is the same for a selector of nothing and for one of everything.
func textOf(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "-" // no label begins so
	}
	return s.String()
}

// matching returns the pod classes that m selects, by their labels where it asks for some value.
func (t *topology) matching(m matcher) []*PodClass {
	spaces := m.spaces
	if m.within != nil {
		spaces = slices.DeleteFunc(slices.Clone(t.spaces), func(space string) bool { return t.w.Ask(1) || !t.has(m, space) })
	}
	requirements, selectable := m.selector.Requirements()
	var found []*PodClass
	for _, space := range spaces {
		if !selectable || t.w.Stopped {
			break
		}
		candidates := t.inSpace[space]
		for _, r := range requirements {
			if values := r.ValuesUnsorted(); len(values) == 1 && isEqual(r) {
				if some := t.byLabel[space+"\x00"+r.Key()+"\x00"+values[0]]; len(some) < len(candidates) {
					candidates = some
				}
			}
		}
		for _, s := range candidates {
			if m.selector.Matches(labels.Set(s.Spec.Labels)) {
				found = append(found, s)
			}
		}
		t.w.Ask(1 + len(candidates)/20)
	}
	return found
}

func isEqual(r labels.Requirement) bool {
	switch r.Operator() {
	case "=", "==", "in":
		return true
	default:
		return false
	}
}
