package simulation

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// preempt makes room for a pod that fits no node by pushing out pods of lower priority, as few
// as it takes, and returns the node; NoNode if that does not help. Those that a budget is about
// go last, but they go (DefaultPreemption of kube-scheduler). Pods of DaemonSets stay, as they
// would come back.
func (r *run) preempt(pod int32) int32 {
	s := r.w.Pods[pod].PodClass
	for _, n := range s.Eligible.List {
		if r.w.Ask(1) {
			break
		}
		if r.At[pod] >= 0 || r.Obstructed(s, n) != scheduling.NoRoom {
			continue
		}
		victims := r.victims(s, n)
		for i, victim := range victims {
			r.Remove(victim)
			if r.Fits(s, n) && r.Obstructed(s, n) == "" {
				for _, v := range victims[:i+1] {
					r.become(v, scheduling.Unscheduled)
					r.image[v], r.unmade[v] = -1, true
				}
				r.search.freed = append(r.search.freed, n)
				r.pushedOut = append(r.pushedOut, victims[:i+1]...)
				return n
			}
		}
		for _, victim := range victims {
			r.Put(victim, n)
		}
	}
	return scheduling.NoNode
}

// victims are the pods of a node that a pod of s may push out, in the order in which they go.
func (r *run) victims(s *scheduling.PodClass, n int32) []int32 {
	var all []int32
	for _, pod := range slices.Concat(r.w.Nodes[n].Pods, r.here[n]) {
		p := &r.w.Pods[pod]
		if r.At[pod] == n && r.isEvicted(pod) && !p.IsBare() && p.PodClass.Spec.Priority < s.Spec.Priority && p.Finalizers == "" && !slices.Contains(all, pod) {
			all = append(all, pod)
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		p, q := r.w.Pods[a].PodClass, r.w.Pods[b].PodClass
		return cmp.Or(convert.Int(len(p.Budgets) > 0)-convert.Int(len(q.Budgets) > 0), cmp.Compare(p.Spec.Priority, q.Spec.Priority))
	})
	return all
}
