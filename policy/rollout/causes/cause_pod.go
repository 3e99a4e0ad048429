package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// unready says why a pod is not ready, and what can be done.
func (d *diagnosis) unready(p *rollout.Pod) explanation {
	switch {
	case p.FailsToPull():
		return d.unpulled(p)
	case p.Node == "":
		return d.unplaced(p)
	case p.Failing != "":
		return d.failing(p)
	default:
		return d.notReadyPod(p)
	}
}

// notReadyPod explains a pod that runs and is not ready. One that was made after the drain began has
// replaced another that was not ready either.
func (d *diagnosis) notReadyPod(p *rollout.Pod) explanation {
	w := explanation{
		cause: PodNotReady, subject: p.FullName(), links: []string{fmt.Sprintf("pod %s on %s is not ready", p.FullName(), p.Node)},
		remedies: []Remedy{look(in(p.Namespace)+"describe pod "+text.Argument(p.Name), "shows its probes and events")},
	}
	others, n := d.landing(p, ""), d.NodeOf[p.Node]
	claim, holder := d.holderOfVolume(p)
	switch {
	case holder != nil: // wherever another one is made
		w.because(fmt.Sprintf("one node at a time can have volume claim %s, and pod %s on %s has it", claim, holder.FullName(), holder.Node))
	case !d.began.IsZero() && p.Created.After(d.began):
		w.because(fmt.Sprintf("it was made after the drain began, %s: to delete it once more may not help", status.When(p.Created, d.Now)))
	case !p.IsBare() && n != nil && !n.Spec.Unschedulable && !rollout.ReportOf(n).IsDraining() && slices.ContainsFunc(slices.Concat(others.works, others.fails, others.unknown), func(n string) bool { return n != p.Node }):
		again := replace(p, "")
		w.remedies = append(w.remedies, act(fmt.Sprintf("oc adm cordon %s && { %s; oc adm uncordon %s; }", text.Argument(p.Node), again.Command, text.Argument(p.Node)), again.Effect+", on another node"))
	default: // a cordon that is there is for others to lift
		w.remedies = append(w.remedies, replace(p, ""))
	}
	return w
}

// holderOfVolume returns a pod that keeps p from starting: it has a volume of p's on another node, and one node at a time can have that.
func (d *diagnosis) holderOfVolume(p *rollout.Pod) (claim string, holder *rollout.Pod) {
	if p.Spec == nil || p.Started {
		return "", nil
	}
	if d.holders == nil {
		d.findHolders()
	}
	for _, claim := range p.Spec.Claims {
		for _, q := range d.holders[p.Namespace+"/"+claim] {
			if q.Node != p.Node {
				return claim, q
			}
		}
	}
	return "", nil
}

// findHolders finds the pods that run with a volume that one node at a time can have: of each, two at most, on different nodes.
func (d *diagnosis) findHolders() {
	d.holders = map[string][]*rollout.Pod{}
	for i := range d.Cluster.Pods {
		q := &d.Cluster.Pods[i]
		if !q.Started || q.Spec == nil {
			continue
		}
		for _, claim := range q.Spec.Claims {
			key := q.Namespace + "/" + claim
			if of := d.holders[key]; d.Cluster.Volumes[key].OneNode && (len(of) == 0 || len(of) == 1 && of[0].Node != q.Node) {
				d.holders[key] = append(of, q)
			}
		}
	}
}

// replace deletes a pod for its controller to make another. A bare pod has none.
func replace(p *rollout.Pod, how string) Remedy {
	effect := "makes another one instead" + how
	if p.IsBare() {
		effect = "last resort: the pod has no controller and will not be recreated"
	}
	return act(in(p.Namespace)+"delete pod "+text.Argument(p.Name), effect)
}

// unpulled is about a pod whose image is not pulled.
func (d *diagnosis) unpulled(p *rollout.Pod) explanation {
	image := p.FailingImage()
	route, unknown := d.RouteOn(p.Node, p.Namespace, image)
	d.pull(route, p.Node)
	if pool := d.poolOf(p.Node); pool != nil {
		d.pullBy(pool.Target, p.Namespace, image, p.Node)
		d.pullBy(from(pool), p.Namespace, image, p.Node)
	}
	w := d.pullOf(image, p.Node, route, unknown)
	first := fmt.Sprintf("pod %s on %s cannot pull %s: %s", p.FullName(), p.Node, cmp.Or(image, "an image"), p.Failing)
	w.links = append([]string{first}, w.links...)
	if p.Detail != "" && !strings.HasPrefix(p.Detail, "Back-off pulling image") {
		w.links = slices.Insert(w.links, 1, "its kubelet says: "+p.Detail)
	}
	if p.Spec != nil && len(p.Spec.PullSecrets) > 0 {
		w.because("the pod has pull secrets of its own, with which registries may answer otherwise")
	}
	if p.Spec == nil || image == "" {
		return w
	}
	d.elsewhere(&w, p, image, route)
	d.toCome(&w, p, image, route)
	d.lost(&w, p, image, route)
	for _, r := range d.revert(image, p) {
		if !slices.ContainsFunc(w.remedies, func(known Remedy) bool { return known.Command == r.Command }) {
			w.last = append(w.last, r)
		}
	}
	return w
}

// elsewhere proposes another pod instead, which may go to another node, or by now be pulled on the same.
// It helps only if every node that it may go to can pull. Where its own can by now, so must those that the scheduler avoids:
// until the pod is gone, its ports and its anti-affinity may keep the next one off that node.
func (d *diagnosis) elsewhere(w *explanation, p *rollout.Pod, image string, route status.Path) {
	l, now := d.landing(p, image), d.pull(route, p.Node)
	switch {
	case l.isSafe() && !p.IsBare() && (now != rollout.PullWorks || !l.avoided): // else its kubelet is to try again
		how := ", which can be pulled on " + text.Names(l.works, status.Shown)
		if now == rollout.PullWorks {
			how = ", which tries at once"
		}
		w.remedies = append([]Remedy{replace(p, how)}, w.remedies...)
		return
	case now == rollout.PullWorks:
		w.remedies = append([]Remedy{look(in(p.Namespace)+"get pod "+text.Argument(p.Name)+" -w", "shows how it goes on: its kubelet tries again by itself, every 5 minutes")}, w.remedies...)
		return
	case d.ahead(w, p, image):
		return
	}
	if len(l.works) > 0 && len(l.fails) > 0 {
		w.because(fmt.Sprintf("another pod instead could be pulled on %s, but not on %s", text.Names(l.works, status.Shown), text.Names(l.fails, status.Shown)))
	}
}

// unplaced is about a pod that is on no node: by which constraint, and who has the place.
func (d *diagnosis) unplaced(p *rollout.Pod) explanation {
	w := explanation{cause: PodNotPlaced, subject: p.FullName(), links: []string{fmt.Sprintf("pod %s is on no node: the scheduler has not placed it", p.FullName())}}
	if p.Spec != nil && p.Spec.Gated {
		w.because("it has scheduling gates, and waits for whatever is to lift them")
	}
	if p.Detail != "" {
		w.because("the scheduler says: " + p.Detail)
	}
	w.remedies = append(w.remedies, look(in(p.Namespace)+"describe pod "+text.Argument(p.Name), "shows which constraint keeps it from each node"))
	for _, n := range d.cordonedByOthers(p) {
		w.because(fmt.Sprintf("node %s is cordoned, and not for an update", n))
		w.remedies = append(w.remedies, act("oc adm uncordon "+text.Argument(n), "lets pods go there again; ask who cordoned it"))
	}
	if p.Spec != nil && !p.Spec.Gated {
		d.kept(&w, p)
	}
	if strings.Contains(p.Detail, "Insufficient") {
		w.remedies = append(w.remedies, look("oc describe nodes", "shows what each node has left (Allocated resources); a node more gives room"))
	}
	if d.isOtherRevision(p) && !d.began.IsZero() && p.Created.After(d.began) {
		w.last = append(w.last, undo(p, "if that asks for what no node has"))
	}
	return w
}

// kept says that a pod may run on no node, or only where a drain is under way, and which pods there do not end.
func (d *diagnosis) kept(w *explanation, p *rollout.Pod) {
	eligible := d.eligible(p)
	if len(eligible) == 0 && len(d.Cluster.Nodes) > 0 {
		w.because("there is no node that its selectors, affinity, tolerations and volumes allow")
	}
	var drained []string
	held := 0
	for _, n := range eligible {
		if n.Spec.Unschedulable && rollout.ReportOf(n).IsDraining() {
			drained = append(drained, n.Name)
		}
		for _, other := range d.PodsOn[n.Name] {
			if other.Deleted && !other.Ended && held < explained && d.holdsUp(other) {
				held++
				w.because(fmt.Sprintf("pod %s on %s is being deleted and has not ended: it keeps its place", other.FullName(), n.Name))
				w.remedies = append(w.remedies, ending(other))
			}
		}
	}
	if len(drained) > 0 && !slices.ContainsFunc(eligible, func(n *corev1.Node) bool { return !n.Spec.Unschedulable }) {
		w.because(fmt.Sprintf("it may run only on %s, which is being drained, and the drain waits for the budget that waits for it", text.Names(drained, status.Shown)))
	}
}

// explained is how many pods of a budget are explained: most have the same cause.
const explained = 3

// isOtherRevision reports whether a pod is of another version of its app than one that is ready: the
// app's own rollout has not come further. An app of an operator is that one's to roll out.
func (d *diagnosis) isOtherRevision(p *rollout.Pod) bool {
	owner := ownerOf(p)
	return owner != "" && d.makers.Of(p) == "" && slices.ContainsFunc(d.PodsOf[p.Namespace], func(other *rollout.Pod) bool {
		return other.Ready && !other.Deleted && ownerOf(other) == owner && revisionOf(other) != revisionOf(p)
	})
}

// revisionOf tells versions of an app apart, by the label that its controller gives its pods.
func revisionOf(p *rollout.Pod) string {
	if p.Spec == nil {
		return ""
	}
	return cmp.Or(p.Spec.Labels[rollout.PodTemplateHash], p.Spec.Labels[revisionHash])
}

// undo takes an app back to the version that others of its pods have.
func undo(p *rollout.Pod, why string) Remedy {
	return act(in(p.Namespace)+"rollout undo "+ownerOf(p), "goes back to the version that its other pods have, "+why)
}

// cordonedByOthers returns nodes that a pod may run on, and that are cordoned for another reason
// than an update.
func (d *diagnosis) cordonedByOthers(p *rollout.Pod) []string {
	var names []string
	for _, n := range d.eligible(p) {
		if r := rollout.ReportOf(n); n.Spec.Unschedulable && r.Done && !r.AskedToDrain() && len(names) < status.Shown {
			names = append(names, n.Name)
		}
	}
	return names
}

// failing is about a pod that does not start, or ends again and again.
func (d *diagnosis) failing(p *rollout.Pod) explanation {
	w := explanation{cause: PodFails, subject: p.FullName(), links: []string{fmt.Sprintf("pod %s on %s does not start: %s", p.FullName(), p.Node, p.Failing)}}
	if p.Detail != "" {
		w.because("its kubelet says: " + p.Detail)
	}
	logs := look(fmt.Sprintf("%slogs %s -c %s --previous", in(p.Namespace), text.Argument(p.Name), text.Argument(p.FailingContainer)), "shows why")
	if p.Failing != "CrashLoopBackOff" { // it has never run
		logs = look(in(p.Namespace)+"describe pod "+text.Argument(p.Name), "shows why")
	}
	w.remedies = []Remedy{logs}
	if d.isOtherRevision(p) {
		w.remedies = append(w.remedies, undo(p, "if the new one is to blame"))
	}
	return w
}

// ownerOf returns what makes a pod, as commands name it ("deployment/cart"), "" for what has no
// versions.
func ownerOf(p *rollout.Pod) string {
	switch w := p.Workload(); w.Kind {
	case "StatefulSet", "DaemonSet", "Deployment":
		return strings.ToLower(w.Kind) + "/" + text.Argument(w.Name)
	default:
		return ""
	}
}

// isRouter reports whether a pod is of an IngressController, which is its administrator's to scale.
func isRouter(p *rollout.Pod) bool {
	return p.Namespace == "openshift-ingress" && strings.HasPrefix(ownerOf(p), "deployment/router-")
}

// scaled returns the command that gives an app one more pod than it asks for, the zero Remedy where an operator
// would take it back. How many the budget expects says nothing about one app: it may cover several, or count
// only the pods that are there.
func scaled(p *rollout.Pod) Remedy {
	owner := ownerOf(p)
	asks := fmt.Sprintf("n=$(%sget %s -o jsonpath='{.spec.replicas}') && ", in(p.Namespace), owner)
	switch {
	case isRouter(p):
		return act(fmt.Sprintf(`%soc -n openshift-ingress-operator patch ingresscontroller %s --type=merge -p '{"spec":{"replicas":'$((n + 1))'}}'`, asks, strings.TrimPrefix(owner, "deployment/router-")),
			"starts one more router; once it is ready, the budget has room")
	case owner == "" || strings.HasPrefix(owner, "daemonset/") || strings.HasPrefix(p.Namespace, "openshift-"):
		return Remedy{}
	default:
		return act(fmt.Sprintf("%s%sscale %s --replicas=$((n + 1))", asks, in(p.Namespace), owner), "starts one more pod; once it is ready, the budget has room")
	}
}
