package progress

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// WantsDiagnosis reports whether a pool may be stalled, so that a diagnosis should say why. That is so
// at most twice within stallAfter: a diagnosis reads the pods of the cluster.
func (t *Tracker) WantsDiagnosis(now time.Time) bool {
	for _, p := range t.pools {
		if p.active && now.Sub(p.moved) >= t.stallAfter/2 && now.Sub(p.diagnosed) >= t.stallAfter/2 {
			return true
		}
	}
	return false
}

// Diagnosed takes a diagnosis of the cluster, with the pods that it was made from, and
// returns what follows. Cluster may be older than the last view. If its pods are not known, some
// may have left: a pool then stalls as late as without a cause.
func (t *Tracker) Diagnosed(d causes.Diagnosis, cluster rollout.Cluster, now time.Time) []Event {
	var events []Event
	unread := slices.Contains(cluster.Unknown, "pods")
	for i := range t.status.Pools {
		name := t.status.Pools[i].Name
		if p := t.pools[name]; p != nil && p.active {
			holdUps := slices.DeleteFunc(slices.Clone(d.HoldUps), func(h causes.HoldUp) bool { return h.Pool != "" && h.Pool != name })
			p.diagnose(diagnosis{holdUps, toLeave(t.status.Pools[i].Left, cluster.Pods), unread, t.stallAfter}, now, &events)
		}
	}
	return events
}

// diagnosis is the part of a causes.Diagnosis that concerns one pool.
type diagnosis struct {
	holdUps    []causes.HoldUp
	left       map[string]bool // toLeave
	unread     bool            // the pods are not known
	stallAfter time.Duration
}

// unexplained is how many times as long a pool has to stand still without a known cause to count as stalled. That is longer
// than an OS update and the reboot of a large machine take: 15 minutes are usual, for each.
const unexplained = 3

func (p *poolTrack) diagnose(d diagnosis, now time.Time, events *[]Event) {
	before, explained := p.left, p.explained
	p.diagnosed = now
	if !d.unread {
		p.left = d.left
	}
	for pod := range before {
		if !p.left[pod] {
			p.movedAt(now, events)
			p.left = d.left
			return
		}
	}
	holdUps := slices.DeleteFunc(d.holdUps, p.isPassing)
	p.explained = !d.unread && slices.ContainsFunc(holdUps, func(h causes.HoldUp) bool { return !h.Unexplained })
	wait := d.stallAfter
	if !p.explained || !explained { // twice, for what passes by itself
		wait *= unexplained
	}
	if unmoved := now.Sub(p.moved); unmoved >= wait || p.stall != nil {
		p.stalled(holdUps, now, events)
	}
}

// isPassing reports whether a hold-up is about a node that reboots: it is not ready then.
func (p *poolTrack) isPassing(h causes.HoldUp) bool {
	n := p.nodes[h.Node]
	return n != nil && n.stage == Rebooting
}

// stalled says so once, and keeps the cause up to date.
func (p *poolTrack) stalled(holdUps []causes.HoldUp, now time.Time, events *[]Event) {
	first := p.stall == nil
	p.stall = &Stall{Since: p.moved, Cause: p.causeText(holdUps)}
	for _, h := range holdUps {
		p.stall.Causes = append(p.stall.Causes, h.Chain)
	}
	if !first {
		return
	}
	unmoved := now.Sub(p.moved)
	e := p.event(now, PoolStalled, fmt.Sprintf("has not moved for %s: %s", Short(unmoved), p.stall.Cause))
	e.Seconds, e.Causes = int64(unmoved/time.Second), p.stall.Causes
	*events = append(*events, e)
}

// causeText says in a line which hold-up with a cause is the first, and how many others there are;
// without any, which pods its drains wait for.
func (p *poolTrack) causeText(holdUps []causes.HoldUp) string {
	switch {
	case len(holdUps) == 0 && len(p.left) > 0:
		return "why is not known; its drains wait for pods (node/namespace/name): " + text.Line(text.Names(slices.Sorted(maps.Keys(p.left)), shownPods))
	case len(holdUps) == 0:
		return "nothing is known that holds it up"
	}
	slices.SortStableFunc(holdUps, func(a, b causes.HoldUp) int { return rollout.FalseFirst(a.Unexplained, b.Unexplained) })
	line := holdUps[0].Chain.String()
	if n := len(holdUps) - 1; n > 0 {
		line += fmt.Sprintf(" (and %s)", text.Count(n, "more finding"))
	}
	return text.Line(line)
}

// shownPods is how many pods are named.
const shownPods = 6

// toLeave returns the pods that are still on nodes that are being drained, of those that were there when that
// began: what has come since, as it tolerates the cordon, comes and goes however far the drain is.
func toLeave(nodes []status.Node, pods []rollout.Pod) map[string]bool {
	began := map[string]time.Time{}
	for i := range nodes {
		if nodes[i].State == status.NodeDraining {
			began[nodes[i].Name] = nodes[i].CordonedAt()
		}
	}
	left := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		if at, ok := began[pod.Node]; ok && pod.IsEvictable() && (at.IsZero() || !pod.Created.After(at)) {
			left[pod.Node+"/"+pod.FullName()] = true
		}
	}
	return left
}
