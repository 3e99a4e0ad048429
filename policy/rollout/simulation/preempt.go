package simulation

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// preempt makes room for a pod that fits no node by pushing out pods of lower priority, as few
// as it takes, and returns the node; noNode if that does not help. Those that a budget is about
// go last, but they go (DefaultPreemption of kube-scheduler). Pods of DaemonSets stay, as they
// would come back.
func (r *run) preempt(pod int32) int32 {
	s := r.w.pods[pod].podClass
	for _, n := range s.eligible.list {
		if r.w.ask(1) {
			break
		}
		if r.node[pod] >= 0 || r.obstructed(s, n) != noRoom {
			continue
		}
		victims := r.victims(s, n)
		for i, victim := range victims {
			r.remove(victim)
			if r.fits(s, n) && r.obstructed(s, n) == "" {
				for _, v := range victims[:i+1] {
					r.become(v, unscheduled)
					r.image[v], r.unmade[v] = -1, true
				}
				r.search.freed = append(r.search.freed, n)
				r.pushedOut = append(r.pushedOut, victims[:i+1]...)
				return n
			}
		}
		for _, victim := range victims {
			r.put(victim, n)
		}
	}
	return noNode
}

// victims are the pods of a node that a pod of s may push out, in the order in which they go.
func (r *run) victims(s *podClass, n int32) []int32 {
	var all []int32
	for _, pod := range slices.Concat(r.w.nodes[n].pods, r.here[n]) {
		p := &r.w.pods[pod]
		if r.node[pod] == n && r.isEvicted(pod) && !p.IsBare() && p.podClass.spec.Priority < s.spec.Priority && p.Finalizers == "" && !slices.Contains(all, pod) {
			all = append(all, pod)
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		p, q := r.w.pods[a].podClass, r.w.pods[b].podClass
		return cmp.Or(convert.Int(len(p.budgets) > 0)-convert.Int(len(q.budgets) > 0), cmp.Compare(p.spec.Priority, q.spec.Priority))
	})
	return all
}
