package scheduling

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// NodeSet is a set of nodes. Equal sets of one cluster are the same one.
type NodeSet struct {
	ID   int
	bits []uint64
	List []int32
	// Staying says that nodes of it are not drained.
	Staying bool
}

// Has reports whether the set has a node.
func (s *NodeSet) Has(n int32) bool { return s.bits[n>>6]&(1<<(n&63)) != 0 }

// Overlaps reports whether the sets have a node in common.
func (s *NodeSet) Overlaps(other *NodeSet) bool {
	if s == other {
		return len(s.List) > 0
	}
	for i, word := range s.bits {
		if word&other.bits[i] != 0 {
			return true
		}
	}
	return false
}

// eligibility finds the nodes that pods may run on. It looks at one of the nodes with equal taints, and
// equal labels of the keys that pods ask for.
type eligibility struct {
	w    *Cluster
	sets []*NodeSet
	// byContent and bySignature find sets again.
	byContent, bySignature map[string]*NodeSet
	// taints are those that keep pods away, each once; tainted are those of each node.
	taints  []corev1.Taint
	tainted [][]int
	// classes are nodes with equal taints, and equal labels of the common keys that are asked for. Rare
	// are keys by which nodes are told apart (kubernetes.io/hostname), with their nodes.
	classes [][]int32
	rare    map[string]map[string][]int32
	volumes map[*corev1.NodeSelector]*nodeaffinity.LazyErrorNodeSelector
}

// rareFrom is how many values make a key rare: each combination of the values of common keys
// is a class.
const rareFrom = 64

var cordonTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func (w *Cluster) addEligibility() {
	e := &eligibility{
		w: w, byContent: map[string]*NodeSet{}, bySignature: map[string]*NodeSet{},
		rare: map[string]map[string][]int32{}, volumes: map[*corev1.NodeSelector]*nodeaffinity.LazyErrorNodeSelector{},
	}
	w.candidates = e
	e.addTaints()
	e.addClasses(e.keysAskedFor())
	for _, s := range w.Classes {
		s.ToleratesCordon = s.Spec.Tolerates(&cordonTaint)
		s.Eligible = e.find(s, filter{affinity: true, volumes: true, taints: true, alive: true})
		s.Reach = s.Eligible
		if w.Ask(5) {
			return
		}
	}
	placed := make([]bool, len(w.Classes))
	for i := range w.Pods {
		p := &w.Pods[i]
		s := p.PodClass
		placed[s.ID] = placed[s.ID] || p.At >= 0
		if p.At >= 0 && !p.Stays && !s.Reach.Has(p.At) {
			s.Reach = e.intern(append(slices.Clone(s.Reach.List), p.At))
		}
	}
	for _, s := range w.Classes {
		if !placed[s.ID] && !slices.ContainsFunc(s.Eligible.List, func(n int32) bool { return !w.Ask(1) && w.Nodes[n].holds(s) }) {
			s.Mobile = 0
		}
	}
}

// holds reports whether a pod fits a node that is empty, or may.
func (n *Node) holds(s *PodClass) bool {
	for r, amount := range s.Requests {
		if n.Alloc != nil && amount > n.Alloc[r] {
			return false
		}
	}
	return true
}

// filter selects which properties of a pod and a node have to match.
type filter struct{ affinity, volumes, taints, alive bool }

// addTaints numbers the taints that keep pods away.
func (e *eligibility) addTaints() {
	e.tainted = make([][]int, len(e.w.Nodes))
	for n := range e.w.Nodes {
		for _, taint := range e.w.Nodes[n].Spec.Taints {
			if taint.Effect != corev1.TaintEffectNoSchedule && taint.Effect != corev1.TaintEffectNoExecute || taint.Key == cordonTaint.Key {
				continue // a cordon goes by spec.unschedulable, which comes before the taint
			}
			i := slices.IndexFunc(e.taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) && t.Value == taint.Value })
			if i < 0 {
				i = len(e.taints)
				e.taints = append(e.taints, taint)
			}
			e.tainted[n] = append(e.tainted[n], i)
		}
	}
}

// keysAskedFor returns the labels of nodes that pods or volumes ask for.
func (e *eligibility) keysAskedFor() map[string]bool {
	keys := map[string]bool{}
	ask := func(selector *corev1.NodeSelector) {
		if selector == nil {
			return
		}
		for _, term := range selector.NodeSelectorTerms {
			for _, requirement := range term.MatchExpressions {
				keys[requirement.Key] = true
			}
		}
	}
	for _, s := range e.w.Classes {
		for key := range s.Spec.NodeSelector {
			keys[key] = true
		}
		ask(requiredNodes(s.Spec.Affinity))
	}
	for _, volume := range e.w.in.Cluster.Volumes {
		ask(volume.Nodes)
	}
	return keys
}

func requiredNodes(a *corev1.Affinity) *corev1.NodeSelector {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func (e *eligibility) addClasses(keys map[string]bool) {
	var common []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		values := map[string][]int32{}
		for n := range e.w.Nodes {
			if value, ok := e.w.Nodes[n].Labels[key]; ok {
				values[value] = append(values[value], int32(n))
			}
		}
		if len(values) > rareFrom {
			e.rare[key] = values
			continue
		}
		common = append(common, key)
	}
	classes := map[string]int{}
	for n := range e.w.Nodes {
		var id []byte
		for _, key := range common {
			value, ok := e.w.Nodes[n].Labels[key]
			id = append(id, value...)
			id = binary.AppendVarint(id, int64(convert.Int(ok)))
		}
		for _, i := range e.tainted[n] {
			id = binary.AppendVarint(id, int64(i))
		}
		c, ok := classes[string(id)]
		if !ok {
			c = len(e.classes)
			classes[string(id)] = c
			e.classes = append(e.classes, nil)
		}
		e.classes[c] = append(e.classes[c], int32(n))
	}
}

// find returns the nodes that pass the filter for the pods of s.
func (e *eligibility) find(s *PodClass, f filter) *NodeSet {
	var volumes []*corev1.NodeSelector
	if f.volumes {
		volumes = e.volumesOf(s)
	}
	signature := e.signature(s, f, volumes)
	if set, ok := e.bySignature[signature]; ok {
		return set
	}
	tolerated := make([]bool, len(e.taints))
	for i := range e.taints {
		tolerated[i] = s.Spec.Tolerates(&e.taints[i])
	}
	required := s.Spec.RequiredNodes()
	fits := func(n int32) bool {
		e.w.Ask(1)
		if f.taints && slices.ContainsFunc(e.tainted[n], func(i int) bool { return !tolerated[i] }) {
			return false
		}
		if !f.affinity {
			return true
		}
		if ok, err := required.Match(e.w.Nodes[n].Node); !ok || err != nil {
			return false
		}
		for _, v := range volumes {
			if ok, err := e.volume(v).Match(e.w.Nodes[n].Node); !ok || err != nil {
				return false
			}
		}
		return true
	}
	var fitting []int32
	if candidates, rare := e.rareNodes(s, volumes); rare && f.affinity {
		for _, n := range candidates {
			if fits(n) {
				fitting = append(fitting, n)
			}
		}
	} else {
		for _, class := range e.classes {
			if fits(class[0]) {
				fitting = append(fitting, class...)
			}
		}
	}
	if f.alive {
		cordonKeeps := !s.Spec.Tolerates(&cordonTaint)
		fitting = slices.DeleteFunc(fitting, func(n int32) bool {
			return !e.w.Nodes[n].alive || cordonKeeps && e.w.Nodes[n].cordoned
		})
	}
	set := e.intern(fitting)
	e.bySignature[signature] = set
	return set
}

// intern returns the set with these nodes.
func (e *eligibility) intern(nodes []int32) *NodeSet {
	set := &NodeSet{ID: len(e.sets), bits: make([]uint64, (len(e.w.Nodes)+63)/64), List: slices.Clone(nodes)}
	slices.Sort(set.List)
	content := make([]byte, 0, len(set.bits)*8)
	for _, n := range set.List {
		set.bits[n>>6] |= 1 << (n & 63)
		set.Staying = set.Staying || !e.w.Nodes[n].Drained
	}
	for _, word := range set.bits {
		content = binary.LittleEndian.AppendUint64(content, word)
	}
	if same, ok := e.byContent[string(content)]; ok {
		return same
	}
	e.byContent[string(content)] = set
	e.sets = append(e.sets, set)
	return set
}

// signature is the same for pods that may run on the same nodes.
func (e *eligibility) signature(s *PodClass, f filter, volumes []*corev1.NodeSelector) string {
	var b strings.Builder
	fmt.Fprint(&b, f.affinity, f.taints, f.alive, f.volumes, s.Spec.Tolerates(&cordonTaint))
	if f.taints {
		for i := range e.taints {
			fmt.Fprint(&b, convert.Int(s.Spec.Tolerates(&e.taints[i])))
		}
	}
	if !f.affinity {
		return b.String()
	}
	for _, key := range slices.Sorted(maps.Keys(s.Spec.NodeSelector)) {
		b.WriteString(key + "=" + s.Spec.NodeSelector[key] + ",")
	}
	for _, selector := range append([]*corev1.NodeSelector{requiredNodes(s.Spec.Affinity)}, volumes...) {
		if selector == nil {
			continue
		}
		text, err := json.Marshal(selector)
		if err != nil { // strings and lists of strings
			panic(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// volumesOf returns where the volumes of the pods can be used, of those that are tied to
// nodes.
func (e *eligibility) volumesOf(s *PodClass) []*corev1.NodeSelector {
	var tied []*corev1.NodeSelector
	for _, claim := range s.Spec.Claims {
		if selector := e.w.in.Cluster.Volumes[s.namespace+"/"+claim].Nodes; selector != nil {
			tied = append(tied, selector)
		}
	}
	return tied
}

func (e *eligibility) volume(selector *corev1.NodeSelector) *nodeaffinity.LazyErrorNodeSelector {
	parsed := e.volumes[selector]
	if parsed == nil {
		parsed = nodeaffinity.NewLazyErrorNodeSelector(selector)
		e.volumes[selector] = parsed
	}
	return parsed
}

// rareNodes returns the nodes to look at for pods that ask for a rare label or the name of a node: all,
// unless they name the values. It returns false if one node of each class is enough.
func (e *eligibility) rareNodes(s *PodClass, volumes []*corev1.NodeSelector) ([]int32, bool) {
	for key, value := range s.Spec.NodeSelector {
		if nodes, ok := e.rare[key]; ok {
			return nodes[value], true
		}
	}
	asks := false
	for _, selector := range append([]*corev1.NodeSelector{requiredNodes(s.Spec.Affinity)}, volumes...) {
		if selector == nil {
			continue
		}
		nodes, rare, narrow := e.rareTerms(selector)
		if narrow {
			return nodes, true
		}
		asks = asks || rare
	}
	if !asks {
		return nil, false
	}
	all := make([]int32, len(e.w.Nodes))
	for n := range all {
		all[n] = int32(n)
	}
	return all, true
}

// rareTerms returns the nodes that a selector can select if each of its terms names some
// (narrow), and whether any asks for rare labels.
func (e *eligibility) rareTerms(selector *corev1.NodeSelector) (nodes []int32, rare, narrow bool) {
	narrow = true
	seen := map[int32]bool{}
	for _, term := range selector.NodeSelectorTerms {
		named := false
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			values, ok := e.rare[r.Key]
			isName := r.Key == metav1.ObjectNameField
			rare = rare || ok || isName
			if named || !ok && !isName || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			named = true
			for _, value := range r.Values {
				at := values[value]
				if n, ok := e.w.byName[value]; ok && isName {
					at = []int32{n}
				}
				for _, n := range at {
					if !seen[n] {
						seen[n] = true
						nodes = append(nodes, n)
					}
				}
			}
		}
		narrow = narrow && named
	}
	return nodes, rare, narrow && rare
}
