package simulation

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// leaving is a pod that is being deleted or was evicted, and may never end. As long as it is there it
// keeps its resources, its ports, and others away by anti-affinity, and a drain of its node waits for it
// (kubectl's drain, waitForDelete). No controller and no budget counts it.
type leaving struct {
	name     string // "namespace/name"
	podClass *podClass
	why      string
	// ended says that its containers have: the scheduler does not reckon with it any more.
	ended bool
	// held says that a drain waits for it.
	held bool
	// sure says that something known keeps it from ending by itself.
	sure bool
}

// endsLate is how long after its time a pod may end although nothing is wrong with it: a kubelet stops
// containers, unmounts volumes and tells the API server.
const endsLate = 2 * time.Minute

// addLeaving enters a pod that is being deleted, and returns it, unless it will have ended soon.
func (w *cluster) addLeaving(in *rollout.Pod, s *podClass) *leaving {
	n, there := w.byName[in.Node]
	if !there {
		return nil
	}
	l := leaving{name: in.FullName(), podClass: s, ended: in.Ended, held: in.IsEvictable()}
	switch now := w.in.Now; {
	case in.Finalizers != "":
		l.why, l.sure = "keeps "+in.Finalizers+" (finalizers)", true
	case now.IsZero() || in.Ends.IsZero():
		l.why = "may not end"
	case now.After(in.Ends.Add(endsLate)):
		l.why, l.sure = "should have ended "+in.Ends.UTC().Format("2006-01-02 15:04 MST"), true
	default:
		return nil
	}
	w.nodes[n].leaving = append(w.nodes[n].leaving, l)
	if !l.ended {
		s.leaving = append(s.leaving, n)
	}
	return &l
}

// staysBehind returns what remains of a pod once it is evicted, false if it ends.
func (w *cluster) staysBehind(pod int32) (leaving, bool) {
	p := &w.pods[pod]
	if p.Finalizers == "" {
		return leaving{}, false
	}
	return leaving{name: w.pods[pod].FullName(), podClass: p.podClass, why: "keeps " + p.Finalizers + " (finalizers)", held: true}, true
}

// leavers reports whether a drain may wait for a pod that does not end, so that not every drain
// that waits does so for a budget.
func (w *cluster) leavers() bool {
	for i := range w.nodes {
		if w.nodes[i].drained && len(w.nodes[i].leaving) > 0 {
			return true
		}
	}
	for i := range w.pods {
		if p := &w.pods[i]; !p.stays && p.Finalizers != "" {
			return true
		}
	}
	return false
}

// keeps reports whether a pod that is leaving counts under an assumption.
func (v assumption) keeps(l leaving) bool { return v.counts(l.sure) }

// counts reports whether something that keeps pods from being made again does.
func (v assumption) counts(sure bool) bool { return sure || !v.sure }

// enter puts the pods that are leaving where they are.
func (p *placement) enter(v assumption) {
	for n := range p.w.nodes {
		for _, l := range p.w.nodes[n].leaving {
			if v.keeps(l) && !l.ended {
				p.add(l.podClass, int32(n), 1, true)
			}
		}
	}
}

// leaves evicts a pod that stays behind on its node.
func (p *placement) leaves(pod int32) {
	n := p.node[pod]
	p.remove(pod)
	p.add(p.w.pods[pod].podClass, n, 1, true)
}
