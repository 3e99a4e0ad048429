package causes

import (
	"fmt"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// drainStall is how long nothing may happen in a drain before it counts as stalled: a kubelet has to end
// a pod, and the API server to be told; MCO tries the rest again each minute.
const drainStall = time.Minute

// notEnding is about pods that are being deleted and have not ended, on a node that is being
// drained.
func (d *diagnosis) notEnding(p *status.Pool, n *status.Node) bool {
	var names []string
	var late []*rollout.Pod
	passing := true
	for _, pod := range d.PodsOn[n.Name] {
		if pod.Deleted && pod.IsEvictable() && d.holdsUp(pod) {
			names, late = append(names, pod.FullName()), append(late, pod)
			passing = passing && !d.Now.IsZero() && !pod.Ends.IsZero() && d.Now.Sub(pod.Ends) < drainStall
		}
	}
	if len(names) == 0 {
		return false
	}
	h := HoldUp{
		Cause: PodNotEnding, Pool: p.Name, Node: n.Name,
		Chain:       chain(fmt.Sprintf("node %s is being drained", n.Name), "pods are being deleted and have not ended: "+text.Names(names, status.Shown)),
		Remedies:    []Remedy{look("oc describe node "+text.Argument(n.Name), "shows what runs there; a pod may take its grace period, or wait for a finalizer or a volume")},
		Unexplained: true, Passing: passing,
	}
	for _, pod := range late[:min(len(late), status.Shown)] {
		d.late(&h, pod)
	}
	d.add(h)
	return true
}

// holdsUp reports whether a pod that is being deleted keeps the place that it has: its finalizers do so
// as soon as its time is over.
func (d *diagnosis) holdsUp(pod *rollout.Pod) bool {
	if d.Now.IsZero() || pod.Ends.IsZero() || pod.Finalizers != "" && (pod.Ended || !d.Now.Before(pod.Ends)) {
		return true
	}
	asked := pod.Ends // when somebody asked for it
	if pod.Spec != nil {
		asked = asked.Add(-pod.Spec.GracePeriod)
	}
	return d.Now.Sub(asked) > drainStall
}

// late says why a pod has not ended. One with finalizers stays however it is deleted.
func (d *diagnosis) late(h *HoldUp, pod *rollout.Pod) {
	isTimed := !d.Now.IsZero() && !pod.Ends.IsZero()
	isLate := isTimed && !d.Now.Before(pod.Ends)
	switch {
	case isLate:
		h.because(fmt.Sprintf("the time that pod %s has for it was over %s", pod.FullName(), status.When(pod.Ends, d.Now)))
	case isTimed:
		h.because(fmt.Sprintf("pod %s has until %s for it: that is its grace period", pod.FullName(), pod.Ends.UTC().Format("15:04:05 MST")))
	}
	if pod.Finalizers == "" && !isTimed {
		return
	}
	if pod.Finalizers != "" {
		h.because(fmt.Sprintf("pod %s has finalizers, and is there until the controllers that set them remove them: %s", pod.FullName(), pod.Finalizers))
	}
	h.Remedies = append(h.Remedies, ending(pod))
	h.Unexplained = false
}

// ending makes a pod go that is being deleted.
func ending(pod *rollout.Pod) Remedy {
	if pod.Finalizers != "" {
		return act(in(pod.Namespace)+"patch pod "+text.Argument(pod.Name)+noFinalizers,
			"last resort: the pod is gone at once, and the controllers that set the finalizers do not clean up after it")
	}
	return act(in(pod.Namespace)+"delete pod "+text.Argument(pod.Name)+" --force --grace-period=0",
		"last resort: the pod is gone at once, although it may still run and hold its volume")
}

// noFinalizers ends a command that takes the finalizers of an object away.
const noFinalizers = ` --type=merge -p '{"metadata":{"finalizers":null}}'`

// stalled is about a drain in which nothing has happened for a while, although nothing known keeps pods
// from being evicted.
func (d *diagnosis) stalled(p *status.Pool, n *status.Node, left []*rollout.Pod) bool {
	since := n.Since
	if at := n.CordonedAt(); !at.IsZero() {
		since = &at
	}
	if !d.longAgo(since, drainStall) {
		return false
	}
	h := HoldUp{
		Pool: p.Name, Node: n.Name, Passing: true,
		Chain: chain(fmt.Sprintf("node %s is being drained", n.Name), "the drain began "+status.When(*since, d.Now)),
		Remedies: []Remedy{
			look(inMCO+"logs deployment/machine-config-controller -c machine-config-controller", "shows what the drain waits for; it is tried again each minute, and after ten every five"),
			look("oc describe node "+text.Argument(n.Name), "shows what runs there"),
		},
	}
	var names []string
	allowed := 0
	for _, pod := range left {
		names = append(names, pod.FullName())
		if d.Evidence.Evictions[status.PodName{Namespace: pod.Namespace, Name: pod.Name}].Allowed {
			allowed++
		}
	}
	switch {
	case len(names) == 0:
		h.because("no pod is left that it would evict, and machine-config-controller has not said that it is done")
	case allowed > 0:
		h.because("pods are still there, and asked for a dry run of their eviction, the API server would let them go: " + text.Names(names, status.Shown))
	default:
		h.because("pods are still there, and no budget that is known keeps them: " + text.Names(names, status.Shown))
	}
	d.add(h)
	return true
}
