package scheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// NewCluster reads an Input.
func NewCluster(in Input) *Cluster {
	if in.Pull == nil {
		in.Pull = func(string, string, string, bool) rollout.Pull { return rollout.PullUnknown }
	}
	w := &Cluster{in: in, byName: map[string]int32{}, sinceAsked: often}
	w.addNodes()
	w.addPools()
	w.addPods()
	w.addSets()
	w.addShared()
	w.addForbidden()
	w.addResources()
	w.addImages()
	w.addEligibility()
	w.addConstraints()
	w.addBudgets()
	return w
}

func (w *Cluster) addNodes() {
	for _, obj := range w.in.Cluster.Nodes {
		if _, twice := w.byName[obj.Name]; twice {
			continue
		}
		w.byName[obj.Name] = int32(len(w.Nodes)) //nolint:gosec // an index of pods
		w.Nodes = append(w.Nodes, Node{Node: obj, Pool: -1, alive: isAlive(obj), cordoned: obj.Spec.Unschedulable})
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
func (w *Cluster) addPools() {
	for i := range w.in.Forecast.Pools {
		p := Pool{Pool: &w.in.Forecast.Pools[i], Follows: -1}
		takes := p.Part == rollout.Takes
		if p.Part == rollout.Stopped {
			w.Waiting = append(w.Waiting, p.Why)
		}
		p.Drains, p.Capacity = takes && p.Decision.Drains, max(p.AtOnce, 1)
		for rank, member := range p.Nodes {
			n, ok := w.byName[member.Name]
			if !ok || w.Nodes[n].Pool >= 0 {
				continue
			}
			at := &w.Nodes[n]
			at.Pool, at.rank = i, rank
			switch {
			case takes && member.IsSkipped():
				w.Waiting = append(w.Waiting, fmt.Sprintf("node %s %s", member.Name, member.Unavailable))
			case takes && rollout.ReportOf(at.Node).GaveUp:
				w.Waiting = append(w.Waiting, fmt.Sprintf("node %s is degraded, and may fail again", member.Name))
			}
			if !takes || member.IsSkipped() {
				continue
			}
			at.Taken, at.Drained = true, p.Drains
			at.cordoned = false // once it is through, or goes on (rollout.Forecast.Released)
			at.alive = at.alive || !member.Updating
			p.Order = append(p.Order, n)
		}
		slices.SortStableFunc(p.Order, func(a, b int32) int {
			return cmp.Or(-cmp.Compare(convert.Int(p.Nodes[w.Nodes[a].rank].Updating), convert.Int(p.Nodes[w.Nodes[b].rank].Updating)),
				cmp.Compare(w.Nodes[a].rank, w.Nodes[b].rank))
		})
		w.Pools = append(w.Pools, p)
	}
	for i := range w.Pools {
		w.Pools[i].Follows = slices.IndexFunc(w.Pools, func(p Pool) bool { return p.Name == w.Pools[i].After && p.Name != "" })
		if w.Pools[i].Follows == i {
			w.Pools[i].Follows = -1
		}
	}
}

// addPods gives every pod its class and its state, in the order of their names.
func (w *Cluster) addPods() {
	type key struct {
		namespace string
		spec      *rollout.PodSpec
	}
	classes := map[key]*PodClass{}
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
			s = &PodClass{ID: len(w.Classes), namespace: in.Namespace, Spec: spec}
			classes[key{in.Namespace, spec}] = s
			w.Classes = append(w.Classes, s)
			w.Lowest = min(w.Lowest, spec.Priority)
		}
		w.addPod(in, s)
	}
}

func (w *Cluster) addPod(in *rollout.Pod, s *PodClass) {
	p := Pod{Pod: in, PodClass: s, At: NoNode, State: Unscheduled, Guard: isGuard(in)}
	if in.Node == "" { // the one that is made instead of a deleted one has the same claims
		p.Unplaceable = unplaceable(in.Detail)
	}
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
		p.At, p.State = LostNode, Unready
	case in.Ready:
		p.At, p.State = n, Healthy
	case in.Started:
		p.At, p.State = n, Unready
	default:
		p.At, p.State = n, Failing
	}
	p.Stays = !in.IsEvictable() || p.At == LostNode || p.At >= 0 && !w.Nodes[p.At].Drained
	if p.At >= 0 {
		at := &w.Nodes[p.At]
		at.Pods = append(at.Pods, int32(len(w.Pods))) //nolint:gosec // an index of pods
	}
	s.Pods++
	switch {
	case !p.Settled():
		s.Mobile++
		s.Keeps += convert.Int(!p.Stays && p.Finalizers != "")
	case p.At >= 0:
		s.fixed = append(s.fixed, p.At)
	}
	w.Pods = append(w.Pods, p)
}

// addShared notes which pods have a volume that another one has, too, and that one node can have at a time: their
// replacements may come to other nodes, and one of them cannot start until the other is gone.
func (w *Cluster) addShared() {
	if !slices.ContainsFunc(slices.Collect(maps.Values(w.in.Cluster.Volumes)), func(v rollout.Volume) bool { return v.OneNode }) {
		return
	}
	users := map[string][]int32{} // of each volume, two at most
	each := func(p *Pod, use func(claim, key string)) {
		for _, claim := range p.PodClass.Spec.Claims {
			if key := p.Namespace + "/" + claim; w.in.Cluster.Volumes[key].OneNode {
				use(claim, key)
			}
		}
	}
	for i := range w.Pods {
		each(&w.Pods[i], func(_, key string) {
			if of := users[key]; len(of) < 2 && !slices.Contains(of, int32(i)) { //nolint:gosec // an index of pods
				users[key] = append(of, int32(i)) //nolint:gosec // an index of pods
			}
		})
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		each(p, func(claim, key string) {
			for _, other := range users[key] {
				if int(other) != i && p.Unplaceable == "" && !p.Settled() {
					p.Unplaceable = fmt.Sprintf("may not start, as one node at a time can have volume claim %s, and %s has it, too", claim, w.Pods[other].FullName())
				}
			}
		})
	}
}

// isGuard reports whether an operator of the control plane has put a bare pod on its node and
// does so again when the node is no longer cordoned (library-go's GuardController, which
// names the pod after the node and labels it app=guard, in the namespace of the operand). It bypasses the scheduler.
func isGuard(p *rollout.Pod) bool {
	switch p.Namespace {
	case "openshift-etcd", "openshift-kube-apiserver", "openshift-kube-controller-manager", "openshift-kube-scheduler":
		return p.IsBare() && p.Spec != nil && p.Spec.Labels["app"] == "guard" && p.Node != "" && strings.HasSuffix(p.Name, "-guard-"+p.Node)
	default: // anybody can name a pod so
		return false
	}
}

// lacking stands for all resources that no node has: a pod can ask for thousands of these.
const lacking corev1.ResourceName = ""

// addResources reads what nodes have and what pods request.
func (w *Cluster) addResources() {
	w.Resources = map[corev1.ResourceName]int{corev1.ResourcePods: 0, lacking: 1}
	for i := range w.Nodes {
		for name, quantity := range w.Nodes[i].Status.Allocatable {
			if _, ok := w.Resources[name]; !ok && !quantity.IsZero() {
				w.Resources[name] = len(w.Resources)
			}
		}
	}
	for _, s := range w.Classes {
		s.Requests = w.amounts(s.Spec.Requests)
		s.Requests[0] = 1
	}
	for i := range w.Nodes {
		if has := w.Nodes[i].Status.Allocatable; len(has) > 0 {
			w.Nodes[i].Alloc = w.amounts(has)
		}
	}
}

// amounts returns quantities by the index of the resource: CPU in thousandths, and 1 of those that are lacking.
func (w *Cluster) amounts(list corev1.ResourceList) []int64 {
	amounts := make([]int64, len(w.Resources))
	for name, quantity := range list {
		i, ok := w.Resources[name]
		switch {
		case quantity.IsZero():
		case !ok:
			amounts[w.Resources[lacking]] = 1
		case name == corev1.ResourceCPU:
			amounts[i] = quantity.MilliValue()
		default:
			amounts[i] = quantity.Value()
		}
	}
	return amounts
}
