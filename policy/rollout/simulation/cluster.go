package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// cluster is an Input with indexes. It does not change while courses are run.
type cluster struct {
	in        Input
	nodes     []node
	byName    map[string]int32
	pools     []pool
	pods      []pod
	classes   []*podClass
	budgets   []*budget
	counters  []*counter
	resources map[corev1.ResourceName]int
	images    *Images
	waiting   []string // Course.Waiting
	keys      *topology
	ending    []ending

	// lowest is the lowest priority of a pod.
	lowest int32

	candidates *eligibility
	sinceAsked int
	stopped    bool
}

// pool is a pool of the forecast.
type pool struct {
	*rollout.Pool
	// order are the nodes that are updated, in the order in which MCO takes them; capacity is
	// how many at once.
	order    []int32
	capacity int
	drains   bool
	after    int // the pool that comes first, -1 for none
}

// node is a node of the cluster.
type node struct {
	*corev1.Node
	// pool is that of the forecast, -1 for none; taken says that the rollout updates the
	// node, drained that it drains it before.
	pool           int
	taken, drained bool
	// rank is its place in the order of its pool's nodes.
	rank int
	// alive says that pods can start there: the kubelet is not known to be silent.
	alive bool
	// cordoned is set if it is cordoned, and the rollout does not change that.
	cordoned bool
	// alloc is what it has for pods, by the index of the resource; nil if that is unknown.
	alloc []int64
	// pods are those that are there before the rollout; leaving are those of them that are
	// being deleted and may not end.
	pods    []int32
	leaving []leaving
}

// pod is a pod of the cluster or, once that was evicted, its replacement, which keeps its number.
type pod struct {
	*rollout.Pod
	podClass *podClass
	node     int32
	state    podState
	// stays says that no drain evicts it: it runs on no node that is drained, or from a file,
	// or for a DaemonSet.
	stays bool
	// guard says that an operator puts it back on its node (isGuard).
	guard bool
	// before is the one of its name that has to end before it is made, nil if that is not so.
	before *leaving
	// set are the pods of its StatefulSet, which makes them one after the other; nil for none.
	set *podSet
	// forbidden is why the API server may refuse its replacement, "" if nothing suggests so.
	forbidden string
}

// podState is the health of a pod.
type podState uint8

const (
	healthy     podState = iota
	unready              // it runs and is not ready, for reasons unknown
	failing              // it is on a node and has not started
	unscheduled          // it has no node
	gone                 // nothing replaces it
)

// noNode is the node of a pod that has none, lostNode that of a pod whose node is not there.
const (
	noNode   int32 = -1
	lostNode int32 = -2
)

func newCluster(in Input) *cluster {
	if in.Pull == nil {
		in.Pull = func(string, string, string, bool) rollout.Pull { return rollout.PullUnknown }
	}
	w := &cluster{in: in, byName: map[string]int32{}}
	w.addNodes()
	w.addPools()
	w.addPods()
	w.addSets()
	w.addForbidden()
	w.addResources()
	w.addImages()
	w.addEligibility()
	w.addConstraints()
	w.addBudgets()
	return w
}

// ask reports whether to give up. Work is about how many thousand instructions have passed
// since it was called last.
func (w *cluster) ask(work int) bool {
	const often = 2000 // well below a millisecond on any processor
	if w.sinceAsked += work; w.sinceAsked < often || w.stopped {
		return w.stopped
	}
	w.sinceAsked = 0
	w.stopped = w.in.Stop != nil && w.in.Stop()
	return w.stopped
}

func (w *cluster) addNodes() {
	for _, obj := range w.in.Cluster.Nodes {
		if _, twice := w.byName[obj.Name]; twice {
			continue
		}
		w.byName[obj.Name] = int32(len(w.nodes)) //nolint:gosec // an index of pods
		w.nodes = append(w.nodes, node{Node: obj, pool: -1, alive: isAlive(obj), cordoned: obj.Spec.Unschedulable})
	}
}

// isAlive reports whether a kubelet reports Ready, or nothing is known of that: the node is
// tainted otherwise, as soon as the node lifecycle controller has seen it.
func isAlive(obj *corev1.Node) bool {
	for _, c := range obj.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// addPools takes over what the forecast says: which nodes are updated, in which order and how
// many at once. Nodes that are being updated already come first.
func (w *cluster) addPools() {
	for i := range w.in.Forecast.Pools {
		p := pool{Pool: &w.in.Forecast.Pools[i], after: -1}
		takes := p.Part == rollout.Takes
		if p.Part == rollout.Stopped {
			w.waiting = append(w.waiting, p.Why)
		}
		p.drains, p.capacity = takes && p.Decision.Drains, max(p.AtOnce, 1)
		for rank, member := range p.Nodes {
			n, ok := w.byName[member.Name]
			if !ok || w.nodes[n].pool >= 0 {
				continue
			}
			at := &w.nodes[n]
			at.pool, at.rank = i, rank
			if takes && member.IsSkipped() {
				w.waiting = append(w.waiting, fmt.Sprintf("node %s %s", member.Name, member.Unavailable))
			}
			if !takes || member.IsSkipped() {
				continue
			}
			at.taken, at.drained = true, p.drains
			if member.Updating {
				at.cordoned = false // once it is through
			}
			p.order = append(p.order, n)
		}
		slices.SortStableFunc(p.order, func(a, b int32) int {
			return cmp.Or(-cmp.Compare(convert.Int(p.Nodes[w.nodes[a].rank].Updating), convert.Int(p.Nodes[w.nodes[b].rank].Updating)),
				cmp.Compare(w.nodes[a].rank, w.nodes[b].rank))
		})
		w.pools = append(w.pools, p)
	}
	for i := range w.pools {
		w.pools[i].after = slices.IndexFunc(w.pools, func(p pool) bool { return p.Name == w.pools[i].After && p.Name != "" })
		if w.pools[i].after == i {
			w.pools[i].after = -1
		}
	}
}

// addPods gives every pod its class and its state, in the order of their names.
func (w *cluster) addPods() {
	type key struct {
		namespace string
		spec      *rollout.PodSpec
	}
	classes := map[key]*podClass{}
	empty := &rollout.PodSpec{}
	order := make([]int32, 0, len(w.in.Cluster.Pods))
	for i := range w.in.Cluster.Pods {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(a, b int32) int {
		p, q := &w.in.Cluster.Pods[a], &w.in.Cluster.Pods[b]
		return cmp.Or(strings.Compare(p.Namespace, q.Namespace), strings.Compare(p.Name, q.Name), cmp.Compare(a, b))
	})
	for _, i := range order {
		in := &w.in.Cluster.Pods[i]
		spec := cmp.Or(in.Spec, empty)
		s := classes[key{in.Namespace, spec}]
		if s == nil {
			s = &podClass{id: len(w.classes), namespace: in.Namespace, spec: spec}
			classes[key{in.Namespace, spec}] = s
			w.classes = append(w.classes, s)
			w.lowest = min(w.lowest, spec.Priority)
		}
		w.addPod(in, s)
		if w.ask(1) {
			return
		}
	}
}

func (w *cluster) addPod(in *rollout.Pod, s *podClass) {
	p := pod{Pod: in, podClass: s, node: noNode, state: unscheduled, guard: isGuard(in)}
	n, there := w.byName[in.Node]
	if in.Deleted && in.Started && there {
		w.ending = append(w.ending, ending{s, n})
	}
	switch {
	case in.Deleted && in.Owner.Kind != "StatefulSet":
		w.addLeaving(in, s)
		return // others have replaced it
	case in.Deleted: // its replacement waits for it to end
		p.before = w.addLeaving(in, s)
	case in.Node == "":
	case !there:
		p.node, p.state = lostNode, unready
	case in.Ready:
		p.node, p.state = n, healthy
	case in.Started:
		p.node, p.state = n, unready
	default:
		p.node, p.state = n, failing
	}
	p.stays = !in.IsEvictable() || p.node == lostNode || p.node >= 0 && !w.nodes[p.node].drained
	if p.node >= 0 {
		at := &w.nodes[p.node]
		at.pods = append(at.pods, int32(len(w.pods))) //nolint:gosec // an index of pods
	}
	s.pods++
	switch {
	case !p.stays:
		s.mobile++
		s.keeps += convert.Int(p.Finalizers != "")
	case p.node >= 0:
		s.fixed = append(s.fixed, p.node)
	}
	w.pods = append(w.pods, p)
}

// ending is a pod that is being deleted, and ran on a node.
type ending struct {
	podClass *podClass
	node     int32
}

// isGuard reports whether an operator of the control plane has put a bare pod on its node and
// does so again when the node is no longer cordoned (library-go's GuardController, which
// names the pod after the node and labels it app=guard). It bypasses the scheduler.
func isGuard(p *rollout.Pod) bool {
	return p.IsBare() && p.Spec != nil && p.Spec.Labels["app"] == "guard" && p.Node != "" &&
		strings.HasSuffix(p.Name, "-guard-"+p.Node)
}

// isNeverReplaced reports whether no controller or operator makes another pod instead.
func (p *pod) isNeverReplaced() bool { return p.IsBare() && !p.guard }

// goesTo returns the nodes that the pod that replaces it may go to.
func (p *pod) goesTo() []int32 {
	if p.guard {
		return []int32{p.node}
	}
	return p.podClass.eligible.list
}

// addResources reads what nodes have and what pods request.
func (w *cluster) addResources() {
	w.resources = map[corev1.ResourceName]int{corev1.ResourcePods: 0}
	for _, s := range w.classes {
		for name, quantity := range s.spec.Requests {
			if _, ok := w.resources[name]; !ok && !quantity.IsZero() {
				w.resources[name] = len(w.resources)
			}
		}
	}
	for _, s := range w.classes {
		s.requests = w.amounts(s.spec.Requests)
		s.requests[0] = 1
	}
	for i := range w.nodes {
		if has := w.nodes[i].Status.Allocatable; len(has) > 0 {
			w.nodes[i].alloc = w.amounts(has)
		}
	}
}

// amounts returns quantities by the index of the resource: CPU in thousandths.
func (w *cluster) amounts(list corev1.ResourceList) []int64 {
	amounts := make([]int64, len(w.resources))
	for name, quantity := range list {
		i, ok := w.resources[name]
		switch {
		case !ok:
		case name == corev1.ResourceCPU:
			amounts[i] = quantity.MilliValue()
		default:
			amounts[i] = quantity.Value()
		}
	}
	return amounts
}
