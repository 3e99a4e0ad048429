package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Unmade says why no other pod may be made instead of p once it is evicted, or of one that is
// waited for; "" if one is. Sure says that this is known.
func (w *Cluster) Unmade(p *Pod, v Assumption) (why string, sure bool) {
	switch {
	case p.before != nil && v.Keeps(*p.before):
		return "is made again when the one before has ended, which is being deleted and " + p.before.Why, p.before.Sure
	case p.Owner.Kind == "StatefulSet" && p.Finalizers != "" && v.counts(false):
		return "is made again when the one before has ended, which keeps " + p.Finalizers + " (finalizers)", false
	case p.forbidden != "" && v.counts(false):
		return p.forbidden, false
	default:
		return "", false
	}
}

// PodSet is the pods of a StatefulSet that creates a pod only when all of lower ordinals are there and
// ready, as it does without podManagementPolicy Parallel (processReplica in
// pkg/controller/statefulset/stateful_set_control.go of k8s.io/kubernetes).
type PodSet struct {
	pods []int32 // by their ordinals
	// lacks is the lowest ordinal without a pod although a higher ordinal has one, -1 for none;
	// lacking is the name of that pod.
	lacks   int
	lacking string
	// sure says that the StatefulSet is known; any other may be of that kind.
	sure bool
}

// ordinal restates getParentNameAndOrdinal (pkg/controller/statefulset/stateful_set_utils.go): -1 for
// a pod that has none.
func (p *Pod) ordinal() int {
	_, number, _ := cutLast(p.Name)
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int(n)
}

func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// addSets enters the pods of StatefulSets by their ordinals.
func (w *Cluster) addSets() {
	known := map[ownerKey]rollout.Controller{}
	for _, c := range w.in.Cluster.Controllers {
		known[ownerKey{c.Namespace, c.Owner}] = c
	}
	sets := map[ownerKey]*PodSet{}
	for i := range w.Pods {
		p := &w.Pods[i]
		k := ownerKey{p.Namespace, p.Owner}
		c, sure := known[k]
		if p.Owner.Kind != "StatefulSet" || c.Parallel || p.ordinal() < 0 {
			continue
		}
		if sets[k] == nil {
			sets[k] = &PodSet{lacks: int(c.First), sure: sure}
		}
		p.Set = sets[k]
		p.Set.pods = append(p.Set.pods, int32(i))
	}
	for _, set := range sets {
		set.complete(w)
	}
}

// complete sorts the pods, and finds out which is the first that is not there.
func (s *PodSet) complete(w *Cluster) {
	slices.SortFunc(s.pods, func(a, b int32) int { return cmp.Compare(w.Pods[a].ordinal(), w.Pods[b].ordinal()) })
	for _, pod := range s.pods {
		switch o := w.Pods[pod].ordinal(); {
		case o < s.lacks: // being scaled down from below
		case o == s.lacks:
			s.lacks++
		default:
			base, _, _ := cutLast(w.Pods[pod].Name)
			s.lacking = fmt.Sprintf("%s/%s-%d", w.Pods[pod].Namespace, base, s.lacks)
			return
		}
	}
	s.lacks = -1
}

// First returns the pod of the lowest ordinal that is not ready, -1 if all are.
func (s *PodSet) First(isUnready func(int32) bool) int32 {
	if i := slices.IndexFunc(s.pods, isUnready); i >= 0 {
		return s.pods[i]
	}
	return -1
}

// WaitsFor says why a pod is not made while first is the first that is not ready, "" if it is. Sure
// says that this is known: one that is not there may be made any moment.
func (s *PodSet) WaitsFor(w *Cluster, pod, first int32, v Assumption) (why string, sure bool) {
	own := w.Pods[pod].ordinal()
	blocks := first >= 0 && w.Pods[first].ordinal() < own
	switch {
	case blocks && s.sure:
		return "is made again when " + w.Pods[first].FullName() + " is ready (podManagementPolicy OrderedReady)", true
	case blocks && v.counts(false):
		return "may be made again only when " + w.Pods[first].FullName() + " is ready, as it is not known whether its StatefulSet has podManagementPolicy Parallel", false
	case v.counts(false) && s.lacks >= 0 && s.lacks < own:
		return "may be made again only when " + s.lacking + " is ready, which is not there", false
	default:
		return "", false
	}
}

// HasDoubts reports whether it is uncertain of any pod that it ends, or is made again or placed.
func (w *Cluster) HasDoubts() bool {
	isDoubtful := func(l Leaving) bool { return !l.Sure }
	return slices.ContainsFunc(w.Nodes, func(n Node) bool { return slices.ContainsFunc(n.Leaving, isDoubtful) }) ||
		slices.ContainsFunc(w.Pods, func(p Pod) bool {
			return p.Finalizers != "" || p.forbidden != "" || p.Unplaceable != "" || p.Set != nil && (!p.Set.sure || p.Set.lacks >= 0)
		})
}
