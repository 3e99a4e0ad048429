package simulation

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// A model is a rollout as small steps in any order: MCO takes a node, a pod is evicted, the
// scheduler places one, a drain ends. It shares nothing with the package but its input, and
// goes through all that it looks at every time.
type model struct {
	in     Input
	nodes  []*corev1.Node
	pools  []modelPool
	pool   []int // by node, -1 for none
	images []string
	// credentials are those of the pods, by credentialsOf.
	credentials []string
}

type modelPool struct {
	name     string
	ranks    [][]int // nodes of equal rank, in order
	capacity int
	drains   bool
	after    int
}

// A situation is one state of the model, as bytes, so that it can be remembered.
type situation struct {
	phase string // by node: waiting, draining, updated, unmanaged
	node  string // by pod: node+1, 0 for none, 255 for gone
	state string // by pod
	list  string // by pod: 1 if a drain waits for it
	held  string // by node and image: 1 if it came there
	left  string // by pod: the node, as above, where one that was deleted has not ended
	made  string // by pod: 0 if its controller has still to make it
}

func newModel(in Input) *model {
	m := &model{in: in, nodes: in.Cluster.Nodes}
	index := map[string]int{}
	for i, n := range m.nodes {
		index[n.Name] = i
		m.pool = append(m.pool, -1)
	}
	for i, p := range in.Forecast.Pools {
		of := modelPool{name: p.Name, capacity: max(p.AtOnce, 1), drains: p.Decision.Drains, after: -1}
		last := -1
		for _, n := range p.Nodes {
			m.pool[index[n.Name]] = i
			if p.Part != rollout.Takes || n.IsSkipped() {
				continue
			}
			if n.Rank != last {
				of.ranks = append(of.ranks, nil)
			}
			last = n.Rank
			of.ranks[len(of.ranks)-1] = append(of.ranks[len(of.ranks)-1], index[n.Name])
		}
		of.after = slices.IndexFunc(in.Forecast.Pools, func(o rollout.Pool) bool { return p.After != "" && o.Name == p.After })
		m.pools = append(m.pools, of)
	}
	for _, p := range in.Cluster.Pods {
		for _, c := range p.Spec.Containers {
			if !slices.Contains(m.images, c.Image) {
				m.images = append(m.images, c.Image)
			}
		}
		if c := credentialsOf(p); !slices.Contains(m.credentials, c) {
			m.credentials = append(m.credentials, c)
		}
	}
	return m
}

// credentialsOf names the pull secrets of a pod, "" for none.
func credentialsOf(p rollout.Pod) string {
	if len(p.Spec.PullSecrets) == 0 {
		return ""
	}
	return p.Namespace + ":" + strings.Join(p.Spec.PullSecrets, ",")
}

// pulledWith is where a situation holds whether an image was pulled on a node with credentials.
func (m *model) pulledWith(n int, image, credentials string) int {
	return (n*len(m.images)+slices.Index(m.images, image))*len(m.credentials) + slices.Index(m.credentials, credentials)
}

const (
	waits, drains, isUpdated, keeps = 'w', 'd', 'u', 'k'
	isReady, isUnready, isPending   = 'r', 'n', 'p'
)

func (m *model) start() situation {
	var s situation
	for n := range m.nodes {
		phase := byte(keeps)
		if p := m.pool[n]; p >= 0 && slices.ContainsFunc(m.pools[p].ranks, func(r []int) bool { return slices.Contains(r, n) }) {
			phase = waits
		}
		s.phase += string([]byte{phase})
	}
	for _, p := range m.in.Cluster.Pods {
		n := slices.IndexFunc(m.nodes, func(n *corev1.Node) bool { return n.Name == p.Node })
		state := byte(isPending)
		switch {
		case p.Ready:
			state = isReady
		case p.Started:
			state = isUnready
		}
		left, made := 0, byte('1')
		if p.Deleted {
			left, n, state, made = n+1, -1, isPending, '0'
			if p.Owner.Kind != "StatefulSet" {
				n = 254 // 255: others are there in its place
			}
		}
		s.left += string([]byte{byte(left)})
		s.made += string([]byte{made})
		s.node += string([]byte{byte(n + 1)})
		s.state += string([]byte{state})
		s.list += "0"
	}
	s.held = strings.Repeat("0", len(m.nodes)*len(m.images)*len(m.credentials))
	return s
}

func set(s string, i int, c byte) string { return s[:i] + string([]byte{c}) + s[i+1:] }

// next returns all situations that can come next, and how many of them, the first, will come
// if nothing else does.
func (m *model) next(s situation) (out []situation, sure int) {
	for i := range m.pools {
		out = append(out, m.takes(s, i)...)
	}
	for n := range m.nodes {
		if s.phase[n] == drains && !m.listed(s, n) {
			after := s
			after.phase = set(s.phase, n, isUpdated)
			out = append(out, m.retried(after, n))
		}
	}
	for p := range m.in.Cluster.Pods {
		switch {
		case s.node[p] == 255:
		case s.node[p] == 0 && s.made[p] == '0':
			if m.inOrder(s, p) && !m.refused(p) {
				out = append(out, m.makes(s, p)...)
			}
		case s.node[p] == 0 && m.in.Cluster.Pods[p].Detail == "":
			out = append(out, m.placed(s, p)...)
		case s.list[p] == '1' && m.evictable(s, p):
			out = append(out, m.evicted(s, p))
		}
	}
	sure = len(out)
	for p := range m.in.Cluster.Pods {
		in := &m.in.Cluster.Pods[p]
		if s.node[p] > 0 && s.node[p] != 255 && !in.Ready && in.Node != "" && s.state[p] != isReady && m.mayRecover(s, p) {
			after := s
			after.state = set(s.state, p, isReady)
			out = append(out, after)
		}
		if s.node[p] == 0 && s.made[p] == '0' && (m.inOrder(s, p) && m.refused(p) || !m.inOrder(s, p) && !m.known(p)) { // it may be allowed, and Parallel
			out = append(out, m.makes(s, p)...)
		}
		if s.node[p] == 0 && s.made[p] == '1' && in.Detail != "" {
			out = append(out, m.placed(s, p)...)
		}
		if after := s; s.node[p] > 0 && s.node[p] != 255 && s.state[p] == isPending && in.Ready && len(in.Spec.Claims) > 0 && m.startsOn(s, p, int(s.node[p])-1) != rollout.PullFails {
			after.state = set(s.state, p, isReady)
			out = append(out, after)
		}
		if s.left[p] > 0 { // it may end
			after := s
			after.left = set(s.left, p, 0)
			out = append(out, after)
		}
	}
	return out, sure
}

// makes: the controller of a pod makes it anew. That of a StatefulSet waits for the one of its
// name to end.
func (m *model) makes(s situation, p int) []situation {
	if m.in.Cluster.Pods[p].Owner.Kind == "StatefulSet" && s.left[p] > 0 {
		return nil
	}
	s.made = set(s.made, p, '1')
	return []situation{s}
}

func (m *model) known(p int) bool {
	return slices.ContainsFunc(m.in.Cluster.Controllers, func(c rollout.Controller) bool { return c.Owner == m.in.Cluster.Pods[p].Owner })
}

// refused reports whether the API server may refuse to make the pod, or nothing may ask it to.
func (m *model) refused(p int) bool {
	in := m.in.Cluster.Pods[p]
	failed := slices.ContainsFunc(m.in.Cluster.Controllers, func(c rollout.Controller) bool { return c.Owner == in.Owner && c.Failure != "" })
	return failed || in.Owner.Kind == "ConfigMap" || m.in.Cluster.Namespaces["app"][rollout.EnforceLabel] == "baseline" && in.Spec.Security == "" ||
		len(m.in.Cluster.Quotas) > 0 && in.Spec.Requests.Cpu().MilliValue() > 0
}

// inOrder reports whether a pod is made even by a StatefulSet that makes them in order, as far as
// it is not known to make them otherwise.
func (m *model) inOrder(s situation, p int) bool {
	of := m.in.Cluster.Pods[p]
	parallel := slices.ContainsFunc(m.in.Cluster.Controllers, func(c rollout.Controller) bool { return c.Owner == of.Owner && c.Parallel })
	if of.Owner.Kind != "StatefulSet" || parallel {
		return true
	}
	for q, other := range m.in.Cluster.Pods {
		lower := other.Owner == of.Owner && other.Name < of.Name // of one digit each
		if lower && (s.state[q] != isReady || s.node[q] == 0 || s.left[q] > 0) {
			return false
		}
	}
	return true
}

// mayRecover: what was not ready at the beginning, for reasons unknown, may become so.
func (m *model) mayRecover(s situation, p int) bool {
	if s.state[p] == isUnready {
		return true
	}
	return m.startsOn(s, p, int(s.node[p])-1) != rollout.PullFails
}

func (m *model) listed(s situation, n int) bool {
	for p := range m.in.Cluster.Pods {
		in := m.in.Cluster.Pods[p]
		if s.list[p] == '1' && int(s.node[p])-1 == n || int(s.left[p])-1 == n && !in.Static && in.Owner.Kind != "DaemonSet" {
			return true
		}
	}
	return false
}

func (m *model) finished(s situation, pool int) bool {
	for n := range m.nodes {
		if m.pool[n] == pool && (s.phase[n] == waits || s.phase[n] == drains) {
			return false
		}
	}
	return true
}

func (m *model) takes(s situation, i int) []situation {
	p := m.pools[i]
	if p.after >= 0 && !m.finished(s, p.after) {
		return nil
	}
	busy := 0
	for n := range m.nodes {
		if m.pool[n] == i && s.phase[n] == drains {
			busy++
		}
	}
	if busy >= p.capacity {
		return nil
	}
	for _, rank := range p.ranks {
		var out []situation
		for _, n := range rank {
			if s.phase[n] != waits {
				continue
			}
			after := s
			if !p.drains {
				after.phase = set(s.phase, n, isUpdated)
				out = append(out, m.retried(after, n))
				continue
			}
			after.phase = set(s.phase, n, drains)
			for q := range m.in.Cluster.Pods {
				in := m.in.Cluster.Pods[q]
				if int(s.node[q])-1 == n && !in.Static && in.Owner.Kind != "DaemonSet" {
					after.list = set(after.list, q, '1')
				}
			}
			out = append(out, after)
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// retried: pods that could not pull on a node try again by its new route.
func (m *model) retried(s situation, n int) situation {
	for p := range m.in.Cluster.Pods {
		if int(s.node[p])-1 == n && s.state[p] == isPending && m.startsOn(s, p, n) == rollout.PullWorks && m.in.Cluster.Pods[p].Failing == "" && (m.in.Cluster.Pods[p].Ready || m.in.Cluster.Pods[p].Node == "") {
			s.state = set(s.state, p, isReady)
		}
	}
	return s
}

func (m *model) budgetsOf(p int) []*policyv1.PodDisruptionBudget {
	var out []*policyv1.PodDisruptionBudget
	for _, b := range m.in.Cluster.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == m.in.Cluster.Pods[p].Namespace && selector.Matches(labels.Set(m.in.Cluster.Pods[p].Spec.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

func (m *model) evictable(s situation, p int) bool {
	if s.state[p] == isPending {
		return true
	}
	budgets := m.budgetsOf(p)
	if len(budgets) != 1 {
		return len(budgets) == 0
	}
	b := budgets[0]
	ready, expected, count := 0, 0, 0
	for q := range m.in.Cluster.Pods {
		if !slices.Contains(m.budgetsOf(q), b) {
			continue
		}
		if s.node[q] != 255 {
			count++
		}
		if in := m.in.Cluster.Pods[q]; in.Owner.Kind != "" && (!in.Deleted || in.Owner.Kind == "StatefulSet") {
			expected++
		}
		if s.state[q] == isReady && s.node[q] > 0 && s.node[q] != 255 {
			ready++
		}
	}
	desired := 0
	switch {
	case b.Spec.MaxUnavailable != nil:
		most, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, expected, true)
		desired = max(expected-most, 0)
	case b.Spec.MinAvailable.Type == intstr.Int:
		desired, expected = b.Spec.MinAvailable.IntValue(), count
	default:
		desired, _ = intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, expected, true)
	}
	if s.state[p] != isReady && (b.Spec.UnhealthyPodEvictionPolicy != nil || ready >= desired && desired > 0) {
		return true
	}
	return expected > 0 && ready > desired
}

func (m *model) evicted(s situation, p int) situation {
	s.list = set(s.list, p, '0')
	if m.in.Cluster.Pods[p].Finalizers != "" {
		s.left = set(s.left, p, s.node[p])
	}
	s.node, s.made = set(s.node, p, 0), set(s.made, p, '0')
	s.state = set(s.state, p, isPending)
	if m.in.Cluster.Pods[p].Owner.Kind == "" {
		s.node = set(s.node, p, 255)
	}
	return s
}

func (m *model) placed(s situation, p int) []situation {
	var out []situation
	if m.in.Cluster.Pods[p].Spec.Gated {
		return nil
	}
	for n := range m.nodes {
		if !m.feasible(s, p, n) {
			continue
		}
		after := s
		after.node = set(s.node, p, byte(n+1))
		pull := m.startsOn(s, p, n)
		if pull != rollout.PullWorks {
			out = append(out, after)
		}
		if pull == rollout.PullFails {
			continue
		}
		if in := m.in.Cluster.Pods[p]; in.Started && !in.Ready && in.Node != "" {
			unreadyStill := after
			unreadyStill.state = set(s.state, p, isUnready)
			out = append(out, unreadyStill)
		}
		after.state = set(s.state, p, isReady)
		for _, c := range m.in.Cluster.Pods[p].Spec.Containers {
			after.held = set(after.held, m.pulledWith(n, c.Image, credentialsOf(m.in.Cluster.Pods[p])), '1')
		}
		out = append(out, after)
	}
	return out
}

// holds says whether the kubelet of a node takes an image from the node for a pod, and whether
// nobody can tell: it is there, and nobody knows with which credentials it was pulled.
func (m *model) holds(s situation, p, n int, image string) (held, maybe bool) {
	uses := func(q rollout.Pod) bool {
		return slices.ContainsFunc(q.Spec.Containers, func(c rollout.Container) bool { return c.Image == image })
	}
	with := map[string]bool{} // which it was pulled with
	for _, c := range m.credentials {
		with[c] = s.held[m.pulledWith(n, image, c)] == '1'
	}
	mine := credentialsOf(m.in.Cluster.Pods[p])
	shared := false
	for _, q := range m.in.Cluster.Pods { // where it runs from the beginning, it is
		with[credentialsOf(q)] = with[credentialsOf(q)] || q.Started && q.Node == m.nodes[n].Name && uses(q)
		shared = shared || uses(q) && credentialsOf(q) != mine
	}
	listed := slices.ContainsFunc(m.nodes[n].Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) })
	switch {
	case with[mine], with[""]:
		return true, false
	case m.nodes[n].Status.NodeInfo.KubeletVersion != "" && shared:
		return false, listed
	default:
		return listed || slices.Contains(slices.Collect(maps.Values(with)), true), false
	}
}

// startsOn says whether the images of a pod are there or can be pulled.
func (m *model) startsOn(s situation, p, n int) rollout.Pull {
	worst := rollout.PullWorks
	if m.detaches(s, p, n) {
		return rollout.PullFails
	}
	for _, c := range m.in.Cluster.Pods[p].Spec.Containers {
		held, maybe := m.holds(s, p, n, c.Image)
		if held && c.Pull != corev1.PullAlways {
			continue
		}
		pull := rollout.PullFails
		if c.Pull != corev1.PullNever {
			name := ""
			if m.pool[n] >= 0 {
				name = m.pools[m.pool[n]].name
			}
			pull = m.in.Pull(c.Image, m.in.Cluster.Pods[p].Namespace, name, s.phase[n] == isUpdated)
		}
		if maybe && c.Pull != corev1.PullAlways && pull == rollout.PullFails {
			pull = rollout.PullUnknown
		}
		switch pull {
		case rollout.PullFails:
			return rollout.PullFails
		case rollout.PullUnknown:
			worst = rollout.PullUnknown
		}
	}
	return worst
}

// detaches reports whether a volume of the pod is still attached elsewhere.
func (m *model) detaches(s situation, p, n int) bool {
	return slices.ContainsFunc(m.in.Cluster.Pods[p].Spec.Claims, func(claim string) bool {
		return m.in.Cluster.Volumes["app/"+claim].OneNode && slices.ContainsFunc(m.present(s, p), func(q presence) bool {
			return q.node != n && slices.Contains(m.in.Cluster.Pods[q.pod].Spec.Claims, claim)
		})
	})
}

// tolerated reports whether neither a cordon nor taints keep a pod from a node.
func (m *model) tolerated(s situation, p, n int) bool {
	tolerates := func(key string) bool {
		return slices.ContainsFunc(m.in.Cluster.Pods[p].Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "" || t.Key == key })
	}
	if (s.phase[n] == drains || m.nodes[n].Spec.Unschedulable) && !tolerates("node.kubernetes.io/unschedulable") {
		return false
	}
	return !slices.ContainsFunc(m.nodes[n].Spec.Taints, func(taint corev1.Taint) bool { return !tolerates(taint.Key) })
}

func (m *model) feasible(s situation, p, n int) bool {
	node, pod := m.nodes[n], m.in.Cluster.Pods[p]
	if !m.tolerated(s, p, n) || node.Status.Conditions[0].Status != corev1.ConditionTrue {
		return false
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if node.Name != a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] {
			return false
		}
	}
	for _, claim := range pod.Spec.Claims {
		if v := m.in.Cluster.Volumes["app/"+claim].Nodes; v != nil && !slices.Contains(v.NodeSelectorTerms[0].MatchExpressions[0].Values, node.Name) {
			return false
		}
	}
	return m.fitsWith(s, p, n)
}

// A presence is a pod on a node, be it that it was deleted there.
type presence struct{ pod, node int }

// present are all pods on nodes but p.
func (m *model) present(s situation, p int) (all []presence) {
	for q := range m.in.Cluster.Pods {
		if q != p && s.node[q] > 0 && s.node[q] != 255 {
			all = append(all, presence{q, int(s.node[q]) - 1})
		}
		if s.left[q] > 0 {
			all = append(all, presence{q, int(s.left[q]) - 1})
		}
	}
	return all
}

// fitsWith is what depends on the other pods.
func (m *model) fitsWith(s situation, p, n int) bool {
	pod := m.in.Cluster.Pods[p]
	cpu, count := pod.Spec.Requests.Cpu().MilliValue(), int64(1)
	for _, q := range m.present(s, p) {
		other, at := m.in.Cluster.Pods[q.pod], m.nodes[q.node]
		if at == m.nodes[n] {
			cpu += other.Spec.Requests.Cpu().MilliValue()
			count++
			for _, port := range pod.Spec.HostPorts {
				if slices.Contains(other.Spec.HostPorts, port) {
					return false
				}
			}
		}
		if apart(pod.Spec, other.Spec, m.nodes[n], at) || apart(other.Spec, pod.Spec, m.nodes[n], at) {
			return false
		}
	}
	has := m.nodes[n].Status.Allocatable
	if pod.Spec.Requests.Cpu().MilliValue() > 0 && cpu > has.Cpu().MilliValue() || count > has.Pods().Value() {
		return false
	}
	return m.hasCompany(s, p, n) && m.isEven(s, p, n)
}

// apart reports whether the anti-affinity of one pod keeps the other away.
func apart(of, other *rollout.PodSpec, a, b *corev1.Node) bool {
	if of.Affinity == nil || of.Affinity.PodAntiAffinity == nil {
		return false
	}
	term := of.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	x, hasX := a.Labels[term.TopologyKey]
	y, hasY := b.Labels[term.TopologyKey]
	return hasX && hasY && x == y && other.Labels["app"] == term.LabelSelector.MatchLabels["app"]
}

func (m *model) hasCompany(s situation, p, n int) bool {
	pod := m.in.Cluster.Pods[p]
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAffinity == nil {
		return true
	}
	app := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels["app"]
	any := false
	for _, q := range m.present(s, p) {
		if m.in.Cluster.Pods[q.pod].Spec.Labels["app"] != app {
			continue
		}
		any = true
		if q.node == n {
			return true
		}
	}
	return !any && pod.Spec.Labels["app"] == app
}

func (m *model) isEven(s situation, p, n int) bool {
	pod := m.in.Cluster.Pods[p]
	for _, c := range pod.Spec.Spread {
		counts := map[string]int{}
		for i, node := range m.nodes {
			value, ok := node.Labels[c.TopologyKey]
			selected := true
			for key, want := range pod.Spec.NodeSelector {
				selected = selected && node.Labels[key] == want
			}
			if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
				selected = selected && node.Name == a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
			}
			if !ok || !selected || c.NodeTaintsPolicy != nil && !m.tolerated(s, p, i) {
				continue
			}
			counts[value] += 0
			for q, other := range m.in.Cluster.Pods {
				if q != p && int(s.node[q])-1 == i && s.node[q] != 255 && other.Spec.Labels["app"] == pod.Spec.Labels["app"] {
					counts[value]++
				}
			}
		}
		value, ok := m.nodes[n].Labels[c.TopologyKey]
		if !ok {
			return false
		}
		least := 1 << 30
		for _, count := range counts {
			least = min(least, count)
		}
		if counts[value]+1-least > int(c.MaxSkew) {
			return false
		}
	}
	return true
}

// explore reports whether any course ends in a stall; ok is false for too many.
func (m *model) explore(limit int) (stalls, ok bool) {
	first := m.start()
	seen := map[situation]bool{first: true}
	for queue := []situation{first}; len(queue) > 0; queue = queue[1:] {
		next, sure := m.next(queue[0])
		stalls = stalls || sure == 0 && strings.ContainsAny(queue[0].phase, string([]byte{waits, drains}))
		for _, s := range next {
			if !seen[s] {
				seen[s] = true
				queue = append(queue, s)
			}
		}
		if len(seen) > limit {
			return false, false
		}
	}
	return stalls, true
}

// randomScene draws a small cluster, or one with up to so many nodes and pods more.
func randomScene(r *rand.Rand, more int) scene {
	pick := func(options ...string) string { return options[r.Intn(len(options))] }
	var b strings.Builder
	first, other := "worker", "infra"
	if r.Intn(8) == 0 {
		first, other = "master", "arbiter"
	}
	fmt.Fprintf(&b, "pool %s %s\n", first, pick("max=1", "max=1", "max=2"))
	second := r.Intn(3) == 0
	if second {
		fmt.Fprintf(&b, "pool %s %s\n", other, pick("max=1", "max=1", "paused", "reload"))
	}
	nodes := 2 + r.Intn(3+more)
	kubelet, secret, images := "", "", []string{"works", "new-fails", "old-fails", "fails", "unknown"}
	if r.Intn(4) == 0 { // pods that share an image, and not how they pull it
		kubelet, secret, images = "kubelet=v1.35.2", " secret=a", []string{"new-fails", "new-fails", "old-fails"}
	}
	var names []string
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		names = append(names, name)
		role := first
		switch {
		case second && i == nodes-1:
			role = other
		case r.Intn(12) == 0:
			role = "label=alone:yes"
		}
		fmt.Fprintf(&b, "node %s %s cpu=%s zone=%s label=disk:%s %s %s\n", name, role, pick("4", "4", "8"), pick("a", "a", "b"), pick("ssd", "hdd"),
			pick("", "", "", "taint=x", "cordoned")+" "+kubelet, pick("", "", "images=new-fails", "images=fails", "images=unknown"))
	}
	left := 5 + more
	own := r.Intn(4) == 0 // pods of which each can only wait for its own node, or nearly
	for app := range 1 + r.Intn(3) {
		replicas := min(1+r.Intn(3+more), left)
		if own && app == 0 {
			replicas = min(nodes, left)
		}
		if replicas == 0 {
			break
		}
		left -= replicas
		var at []string
		free := slices.Clone(names)
		r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
		for i := range replicas {
			at = append(at, pick(append(slices.Repeat([]string{free[i%len(free)]}, 11), "")...)+pick("", "", "", "", "", "", "", "", "!unready", "!pending", "!deleted", "!kept"))
		}
		spec := fmt.Sprintf("app%d cpu=%s", app, pick("100m", "100m", "1", "2", "3"))
		if own && app == 0 {
			spec += " " + pick("cpu=3", "cpu=3", "spread", "spread="+corev1.LabelTopologyZone, "spread honor", "apart", "apart="+corev1.LabelTopologyZone, "spread cpu=3", "apart spread="+corev1.LabelTopologyZone)
		}
		for range r.Intn(3 - 2*convert.Int(own)) {
			spec += " " + pick("port=80", "port=80", "apart", "apart="+corev1.LabelTopologyZone, "spread", "spread="+corev1.LabelTopologyZone, "spread honor", "honor spread="+corev1.LabelTopologyZone,
				"with=app0", "on=disk:ssd", "node=n0", "tolerates=x", "tolerates=*", "claim=c", "security=baseline")
		}
		if r.Intn(2) == 0 || secret != "" {
			spec += " image=" + pick(images...) + pick("", "", " always", " never") + pick("", secret)
		}
		fmt.Fprintf(&b, "%s %s %s\n", pick("ReplicaSet", "ReplicaSet", "ConfigMap", "refused", "StatefulSet", "OrderedReady", "Parallel", "bare", "DaemonSet"), strings.Join(at, ","), spec)
		if r.Intn(5) > 0 {
			fmt.Fprintf(&b, "budget b%d app=app%d %s %s\n", app, app, pick("max=1", "max=1", "min=1", "min=2", "max=50%", "min=50%", "max=0", "max=100%", "min=0"), pick("", "", "", "always"))
		}
	}
	b.WriteString(pick("", "", "", "", "", "", "enforce baseline\n", "quota q requests.cpu=5/4\n"))
	if r.Intn(20) == 0 {
		b.WriteString("budget everything all max=1\n")
	}
	fmt.Fprintf(&b, "volume c %s\n", pick("n0", "n0 n1"))
	if left > 0 && r.Intn(3) == 0 { // some of one volume, on one node mostly
		at := strings.Join(slices.Repeat([]string{pick(names...)}, 1+r.Intn(min(left, 2))), ",") + pick("", "", ","+pick(names...))
		fmt.Fprintf(&b, "volume d n0 n1 n2 n3 once\n%s %s shared claim=d image=works\nbudget shared app=shared %s\n", pick("ReplicaSet", "Parallel", "OrderedReady"), at, pick("max=1", "max=1", "min=1", "max=2"))
	}
	return scene(b.String())
}

// TestGuarantee holds the result against all that can happen in small clusters: if it has no stall, no sequence of events
// has; and if its steps come to one, some sequence does.
func TestGuarantee(t *testing.T) {
	clusters := campaign.Times(300, 3000)
	const limit = 40000
	counts := map[string]int{}
	for seed := range clusters {
		s := randomScene(rand.New(rand.NewSource(int64(seed))), convert.Int(seed%10 == 0))
		in := s.input(t)
		for i := range in.Cluster.Pods {
			if p := &in.Cluster.Pods[i]; p.Node == "" && i%2 == 0 {
				p.Detail = "its volume is not bound"
			}
		}
		some, ok := newModel(in).explore(limit)
		if !ok {
			counts["too large"]++
			continue
		}
		got := Run(in)
		worst := len(got.Stalls) > 0
		if some && !worst {
			t.Errorf("seed %d: a course stalls, and none was found\n%s\n%s", seed, s, lines(got.Steps))
		}
		if played := slices.ContainsFunc(got.Stalls, func(s Stall) bool { return !s.Possible }); played && !some {
			t.Errorf("seed %d: no course stalls, and one was played that does: %s\n%s\n%s", seed, said(got), s, lines(got.Steps))
		}
		counts[fmt.Sprintf("some=%t", some)]++
		if worst && !some {
			counts["too dark"]++
		}
	}
	t.Log(counts)
	if sure := counts["some=false"]; counts["too dark"] > sure/2 {
		t.Errorf("a stall was found in %d of %d clusters where nothing stalls", counts["too dark"], sure)
	}
}
