package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// draining is about a node that is being drained: which evictions are refused, and why. Why is
// what else is known of the drain. It reports whether anything holds the drain up.
func (d *diagnosis) draining(p *status.Pool, n *status.Node, why string) bool {
	found := false
	var others []*rollout.Pod
	for _, pod := range d.PodsOn[n.Name] {
		if !pod.IsEvictable() || pod.Deleted {
			continue
		}
		r, refused := d.refusal(pod)
		if !refused {
			others = append(others, pod)
			continue
		}
		found = true
		d.refused(p, n, pod, r, why)
	}
	if !found {
		for _, pod := range others[:min(len(others), maxEvictionsOfNode)] {
			d.askEviction(status.PodName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return d.notEnding(p, n) || found || d.stalled(p, n, others)
}

// refusal returns why a pod is not evicted: by the objects, and by what the API server answered.
func (d *diagnosis) refusal(pod *rollout.Pod) (refusal, bool) {
	name := status.PodName{Namespace: pod.Namespace, Name: pod.Name}
	r, refused := d.budgets.refuses(pod)
	if refused {
		d.askEviction(name)
		r = d.recounted(r)
	}
	answer, asked := d.Evidence.Evictions[name]
	switch {
	case !asked:
		return r, refused
	case answer.Allowed: // the objects are behind
		return refusal{}, false
	case !answer.Budgets:
		return refusal{why: "the API server refuses it", cause: EvictionRefused, answer: answer.Words, covers: func(*rollout.Pod) bool { return false }}, true
	case !refused:
		r = refusal{why: "a budget refuses it", cause: EvictionRefused, covers: func(*rollout.Pod) bool { return false }}
		if b, ok := d.budgets.named(pod, answer.Words); ok {
			r = refusalBy(b, "budget "+b.Name+" refuses it")
		}
	}
	r.answer = answer.Words
	return r, true
}

// recounted returns the refusal of a budget that counts fewer pods as healthy than are. For up to two
// minutes after an eviction the disruption controller counts the pod as gone, and with it a new pod of
// the same name, as a StatefulSet makes it (DeletionTimeout and buildDisruptedPodMap in
// pkg/controller/disruption/disruption.go of k8s.io/kubernetes).
func (d *diagnosis) recounted(r refusal) refusal {
	if r.of == nil || r.cause != BudgetFull {
		return r
	}
	healthy, counted := 0, int(r.of.Status.CurrentHealthy)
	for _, p := range d.PodsOf[r.of.Namespace] {
		switch {
		case p.Deleted || !r.covers(p):
		case !p.Ready:
			return r // for this one
		default:
			healthy++
		}
	}
	if healthy <= counted || healthy <= int(r.of.Status.DesiredHealthy) {
		return r
	}
	r.cause, r.passing = BudgetNotObserved, true
	r.why = fmt.Sprintf("the status of budget %s counts %s as healthy, and %s: for up to two minutes after an eviction kube-controller-manager may take the next pod of the same name for the one that was to go",
		r.of.Name, text.Count(counted, "pod"), text.Plural(healthy, "is", "are"))
	return r
}

// refused is about a pod whose eviction is refused.
func (d *diagnosis) refused(p *status.Pool, n *status.Node, pod *rollout.Pod, r refusal, why string) {
	subject := p.Name + "/" + pod.Namespace + "/" + cmp.Or(r.budget, r.answer)
	if i, known := d.refusals[subject]; known { // the budget is explained already
		d.HoldUps[i].also(n.Name, pod.FullName())
		return
	}
	d.refusals[subject] = len(d.HoldUps)
	h := HoldUp{Cause: r.cause, Pool: p.Name, Node: n.Name, pods: []string{pod.FullName()}, Passing: r.passing, Chain: chain(
		fmt.Sprintf("node %s is being drained", n.Name), fmt.Sprintf("pod %s is not evicted: %s", pod.FullName(), r.why),
	)}
	if r.answer != "" {
		h.because("asked for a dry run of it, the API server says: " + r.answer)
	}
	if why != "" {
		h.because(why)
	}
	for _, b := range r.owned {
		h.because(fmt.Sprintf("%s made budget %s, and changes or deletes it by itself", b.Maker(), b.Name))
	}
	d.began = n.CordonedAt()
	last := d.replacements(&h, pod, r)
	h.Remedies = append(h.Remedies, d.budgetRemedies(pod, r, h.Cause)...)
	h.Remedies = append(h.Remedies, last...)
	effect := "last resort: goes around the budget, whose service may then be down"
	if pod.IsBare() {
		effect += "; the pod has no controller and will not be recreated"
	}
	deletion := act(in(pod.Namespace)+"delete pod "+text.Argument(pod.Name), effect)
	h.Remedies = slices.DeleteFunc(h.Remedies, func(r Remedy) bool { return r.Command == deletion.Command }) // what is proposed for one that is not ready
	if len(owned(d.budgets.covering(pod)...)) == 0 {
		h.Remedies = append(h.Remedies, deletion)
	}
	slices.SortStableFunc(h.Remedies, func(a, b Remedy) int { return rollout.FalseFirst(mayWorsen(a), mayWorsen(b)) })
	d.add(h)
}

// also adds a pod that is not evicted for the same budget, and its node. Pods come node by node.
func (h *HoldUp) also(node, pod string) {
	h.pods = append(h.pods, pod)
	if last := len(h.AlsoNodes) - 1; node != h.Node && (last < 0 || h.AlsoNodes[last] != node) {
		h.AlsoNodes = append(h.AlsoNodes, node)
	}
}

// countPods says, after the link about the first of the pods that are not evicted, how many others
// there are.
func (h *HoldUp) countPods() {
	if len(h.pods) > 1 {
		more := text.Plural(len(h.pods)-1, "more pod", "more pods") + ": " + text.Names(h.pods[1:], status.Shown)
		h.Chain.Links = slices.Insert(h.Chain.Links, 1, text.Line("so it is for "+more))
	}
}

// replacements says which pods keep a budget from having room, which may be the one that it does not let go, and why
// they do not run. It returns the remedies that do more than is asked for.
func (d *diagnosis) replacements(h *HoldUp, pod *rollout.Pod, r refusal) (last []Remedy) {
	if h.Cause != BudgetFull {
		return nil
	}
	var whys []explanation
	waiting := 0
	for _, other := range d.PodsOf[pod.Namespace] {
		if other.Ready || other.Deleted || !r.covers(other) {
			continue
		}
		if waiting++; waiting <= explained {
			whys = append(whys, d.unready(other))
		}
	}
	if waiting == 0 && len(r.owned) > 0 {
		return d.beside(h, r)
	}
	slices.SortStableFunc(whys, func(a, b explanation) int { return cmp.Compare(rank(a.cause), rank(b.cause)) })
	for _, w := range whys {
		h.because(w.links...)
		h.Remedies = append(h.Remedies, w.remedies...)
		for _, r := range w.last {
			if !slices.Contains(last, r) {
				last = append(last, r)
			}
		}
	}
	switch {
	case len(whys) == 0 && d.notCreated(h, pod, r):
	case len(whys) == 0:
		h.because("all pods that count for the budget are healthy: it leaves no room for a drain")
	case waiting > len(whys):
		h.because(fmt.Sprintf("%s of the budget are not ready either", text.Plural(waiting-len(whys), "more pod", "more pods")))
	}
	if len(whys) > 0 {
		h.Cause = whys[0].cause
	}
	return last
}

// beside explains pods for which the owner of a budget may let none of its own go.
func (d *diagnosis) beside(h *HoldUp, r refusal) (last []Remedy) {
	pods := r.owned[0].Beside(d.PodsOf[r.owned[0].Namespace])
	for _, other := range pods[:min(len(pods), explained)] {
		w := d.unready(other)
		h.because(w.links...)
		h.Remedies, last = append(h.Remedies, w.remedies...), append(last, w.last...)
	}
	if more := len(pods) - explained; more > 0 {
		h.because(text.Plural(more, "more pod is not ready either", "more pods are not ready either"))
	}
	return last
}

// rank puts the surest cause first.
func rank(c Cause) int {
	return slices.Index([]Cause{ImageNotPulled, PodNotPlaced, PodFails, PodNotReady}, c)
}

// budgetRemedies returns what can be done about a budget.
func (d *diagnosis) budgetRemedies(pod *rollout.Pod, r refusal, cause Cause) []Remedy {
	if r.budget == "" {
		return nil
	}
	more := "more replicas"
	if maker := d.makers.Of(pod); maker != "" {
		more += ", which " + maker + " is to make"
	}
	remedies := []Remedy{look(in(pod.Namespace)+"get pdb "+text.Argument(r.budget)+" -o yaml", "shows the budget: "+more+", or a budget that allows one disruption, let the drain go on")}
	if len(r.owned) > 0 {
		remedies = convert.Each(r.owned, askOwnerOf)
	}
	switch {
	case r.cause == SeveralBudgets:
		return append(remedies, d.oneBudgetFewer(pod)...)
	case r.cause == BudgetNotObserved && !r.unworkable:
		return append([]Remedy{look("oc get clusteroperator kube-controller-manager", "says whether what keeps budgets up to date runs")}, append(remedies,
			act(`oc patch kubecontrollermanager cluster --type=merge -p '{"spec":{"forceRedeploymentReason":"'"budgets $(date)"'"}}'`,
				"starts kube-controller-manager anew on each control plane node, one after the other, which takes some minutes; what runs goes on"))...)
	case len(r.owned) > 0 && !isRouter(pod), r.of == nil:
		return remedies
	case !pod.Ready && !strings.HasPrefix(pod.Namespace, "openshift-"):
		return append(remedies, act(in(pod.Namespace)+"patch pdb "+text.Argument(r.budget)+` --type=merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`,
			"lets pods go that are not ready, now and at each later drain")) // whatever its status says
	case r.unworkable && len(r.owned) == 0:
		return append(remedies, d.counting(pod, r))
	}
	var remedy Remedy
	switch healthy := int(r.of.Status.CurrentHealthy); {
	case cause == BudgetFull && !r.of.OneMoreHelps(int(r.of.Status.ExpectedPods), healthy):
		remedy = oneAway(pod, r)
	case cause == BudgetFull && d.makers.Of(pod) == "":
		remedy = scaled(pod)
	case cause != BudgetFull && cause != ImageNotPulled:
		remedy = oneFewer(pod, r, cause)
	}
	if remedy.Command != "" {
		remedies = append(remedies, remedy)
	}
	return remedies
}

// oneAway has a budget let one pod go at a time; the zero Remedy where that gives it no room: it then goes by what controllers ask
// for, and none does, or some of those pods are missing.
func oneAway(pod *rollout.Pod, r refusal) Remedy {
	expected := r.of.Expected()
	if len(r.owned) > 0 || int(r.of.Status.CurrentHealthy) < expected || expected == 0 && ownerOf(pod) == "" {
		return Remedy{}
	}
	return act(in(pod.Namespace)+"patch pdb "+text.Argument(r.budget)+` --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`,
		"lets one pod go at a time, now and at each later drain")
}

// oneBudgetFewer deletes one of the budgets of a pod that has no owner, and without which none of its pods is
// left without a budget.
func (d *diagnosis) oneBudgetFewer(pod *rollout.Pod) []Remedy {
	for _, b := range slices.Backward(d.budgets.covering(pod)) {
		needsIt := func(p *rollout.Pod) bool { return b.Covers(p) && len(d.budgets.covering(p)) == 1 }
		if b.Maker() == "" && !slices.ContainsFunc(d.PodsOf[pod.Namespace], needsIt) {
			return []Remedy{act(in(pod.Namespace)+"delete pdb "+text.Argument(b.Name), "leaves the pods to the other budgets; with one, drains go on")}
		}
	}
	return nil
}

// askOwnerOf shows what the owner of a budget waits for. The owner alone may change or bypass the budget: it may be all that
// keeps data within reach.
func askOwnerOf(b rollout.Budget) Remedy {
	o, namespace := b.Owner(), b.Namespace
	if o.Kind == "IngressController" {
		namespace = "openshift-ingress-operator"
	}
	kind := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind().String()
	return look(in(namespace)+"describe "+text.Argument(strings.ToLower(kind))+" "+text.Argument(o.Name), "shows what "+rollout.NameOf(o)+" waits for; it lets the drain go on when that is there")
}

// counting has the budget count existing pods that are ready and lets one go; it lets all bare pods go, which
// nothing replaces.
func (d *diagnosis) counting(pod *rollout.Pod, r refusal) Remedy {
	least := 0
	for _, other := range d.PodsOf[pod.Namespace] {
		if other != pod && other.Ready && !other.Deleted && pod.Owner.Kind != "" && r.covers(other) {
			least++
		}
	}
	return act(fmt.Sprintf(`%spatch pdb %s --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":%d}}'`, in(pod.Namespace), text.Argument(r.budget), least),
		"counts existing pods instead of a controller's replicas, so that one can be evicted")
}

// named returns the budget that the words of the API server name.
func (of budgets) named(p *rollout.Pod, words string) (rollout.Budget, bool) {
	for _, b := range of.covering(p) {
		if slices.Contains(strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == '"' || r == '.' || r == ',' }), b.Name) {
			return b, true
		}
	}
	return rollout.Budget{}, false
}

// oneFewer lets a drain go on with one pod fewer than are ready now; the zero Remedy where an operator
// would take that back, or there is no number to lower.
func oneFewer(pod *rollout.Pod, r refusal, cause Cause) Remedy {
	if r.of == nil || r.of.Status.CurrentHealthy < 1 || r.budget == "" || strings.HasPrefix(pod.Namespace, "openshift-") {
		return Remedy{}
	}
	least := r.of.Status.CurrentHealthy - 1
	was := "maxUnavailable"
	value := r.of.Spec.MaxUnavailable
	if value == nil {
		was, value = "minAvailable", r.of.Spec.MinAvailable
	}
	effect := fmt.Sprintf("lets one pod go although the others do not run: %d of %d may be left", least, r.of.Status.ExpectedPods)
	switch {
	case least == 0:
		effect = "may make it worse: lets the last pod go, and what it serves is down until another one runs"
	case cause == PodNotCreated:
		effect = "may make it worse: " + effect + ", and none is made instead"
	}
	if value != nil {
		effect += fmt.Sprintf("; afterwards put back what it says now (%s: %s)", was, value.String())
	}
	return act(fmt.Sprintf(`%spatch pdb %s --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":%d}}'`, in(pod.Namespace), text.Argument(r.budget), least), effect)
}
