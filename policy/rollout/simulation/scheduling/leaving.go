package scheduling

import (
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Leaving is a pod that is being deleted or was evicted, and may never end. As long as it is there it
// keeps its resources, its ports, and others away by anti-affinity, and a drain of its node waits for it
// (kubectl's drain, waitForDelete). No controller and no budget counts it.
type Leaving struct {
	Name     string // "namespace/name"
	PodClass *PodClass
	Why      string
	// Ended says that its containers have: the scheduler does not reckon with it any more.
	Ended bool
	// Held says that a drain waits for it.
	Held bool
	// Sure says that something known keeps it from ending by itself.
	Sure bool
}

// endsLate is how long after its time a pod may end although nothing is wrong with it: a kubelet stops
// containers, unmounts volumes and tells the API server.
const endsLate = 2 * time.Minute

// addLeaving enters a pod that is being deleted, and returns it, unless it will have ended soon.
func (w *Cluster) addLeaving(in *rollout.Pod, s *PodClass) *Leaving {
	n, there := w.byName[in.Node]
	if !there {
		return nil
	}
	l := Leaving{Name: in.FullName(), PodClass: s, Ended: in.Ended, Held: in.IsEvictable()}
	switch now := w.in.Now; {
	case in.Finalizers != "":
		l.Why, l.Sure = "keeps "+in.Finalizers+" (finalizers)", true
	case now.IsZero() || in.Ends.IsZero():
		l.Why = "may not end"
	case now.After(in.Ends.Add(endsLate)):
		l.Why, l.Sure = "should have ended "+in.Ends.UTC().Format("2006-01-02 15:04 MST"), true
	default:
		return nil
	}
	w.Nodes[n].Leaving = append(w.Nodes[n].Leaving, l)
	if !l.Ended {
		s.leaving = append(s.leaving, n)
	}
	return &l
}

// StaysBehind returns what remains of a pod once it is evicted, false if it ends.
func (w *Cluster) StaysBehind(pod int32) (Leaving, bool) {
	p := &w.Pods[pod]
	if p.Finalizers == "" {
		return Leaving{}, false
	}
	return Leaving{Name: w.Pods[pod].FullName(), PodClass: p.PodClass, Why: "keeps " + p.Finalizers + " (finalizers)", Held: true}, true
}

// HasLeavers reports whether a drain may wait for a pod that does not end, so that not every drain
// that waits does so for a budget.
func (w *Cluster) HasLeavers() bool {
	return slices.ContainsFunc(w.Nodes, func(n Node) bool { return n.Drained && len(n.Leaving) > 0 }) ||
		slices.ContainsFunc(w.Pods, func(p Pod) bool { return !p.Stays && p.Finalizers != "" })
}

// Keeps reports whether a pod that is leaving counts under an assumption.
func (v Assumption) Keeps(l Leaving) bool { return v.counts(l.Sure) }

// counts reports whether something that keeps pods from being made again does.
func (v Assumption) counts(sure bool) bool { return sure || !v.Sure }
