package causes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// cluster is about what holds up all pools.
func (d *diagnosis) cluster(s *status.Status) {
	if d.rejected != nil && d.MirrorsUnknown == nil {
		d.objectsRejected()
	}
	d.controller(s)
}

func (d *diagnosis) objectsRejected() {
	h := HoldUp{
		Cause:    ObjectsRejected,
		Chain:    chain("MCO renders nothing for any pool", "it rejects the mirror objects: "+text.Line(d.rejected.Error())),
		Remedies: []Remedy{look("mirrorset-guard render", "says which objects it rejects")},
	}
	var rejection *mirrors.Rejection
	if errors.As(d.rejected, &rejection) {
		for _, name := range offenders(rejection) {
			if edit := editCommand(name); edit != "" {
				h.Remedies = append(h.Remedies, act(edit, "repairs the contradiction from this side; MCO then renders at once, and all that has waited reaches the nodes together"))
			}
		}
	}
	d.add(h)
}

// offenders returns the objects that a rejection names, each once.
func offenders(r *mirrors.Rejection) []string {
	var names []string
	for _, reason := range r.Reasons {
		names = append(names, reason.Offenders...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), status.Shown)]
}

// editCommand returns the command that edits an object by its name ("ImageTagMirrorSet apps"),
// "" if name is not an object's.
func editCommand(name string) string {
	kind, object, _ := strings.Cut(name, " ")
	if object == "" || !strings.HasPrefix(kind, "Image") && !strings.HasPrefix(kind, "ClusterImage") || strings.Contains(object, " ") {
		return ""
	}
	namespace, object, namespaced := strings.Cut(object, "/")
	if !namespaced {
		return fmt.Sprintf("oc edit %s %s", strings.ToLower(kind), text.Argument(namespace))
	}
	return fmt.Sprintf("oc -n %s edit %s %s", text.Argument(namespace), strings.ToLower(kind), text.Argument(object))
}

// hasMCOPods reports whether the pods of MCO are known, so that one that is missing is not
// there: dumps may lack them.
func (d *diagnosis) hasMCOPods() bool {
	_, hasNamespace := d.Cluster.Namespaces[mcoNamespace]
	return !slices.Contains(d.Cluster.Unknown, "pods") && (hasNamespace || len(d.PodsOf[mcoNamespace]) > 0)
}

// podsOf returns MCO's pods of that name.
func (d *diagnosis) podsOf(app string) []*rollout.Pod {
	var pods []*rollout.Pod
	for _, p := range d.PodsOf[mcoNamespace] {
		if p.Spec != nil && p.Spec.Labels["k8s-app"] == app {
			pods = append(pods, p)
		}
	}
	return pods
}

func isReady(p *rollout.Pod) bool { return p.Ready && !p.Deleted }

// controller is about machine-config-controller, without which no pool is rendered, and no node
// taken or drained.
func (d *diagnosis) controller(s *status.Status) {
	const name = "machine-config-controller"
	pods := d.podsOf(name)
	if !d.hasMCOPods() || slices.ContainsFunc(pods, isReady) {
		return
	}
	h := HoldUp{
		Cause: ControllerDown, Chain: chain("no pool is rendered, and no node is taken or drained", name+" does not run"),
		Remedies: []Remedy{look(inMCO+"get deployment,pods -l k8s-app="+name, "shows its Deployment and its pods")},
	}
	if !slices.ContainsFunc(s.Pools, func(p status.Pool) bool { return p.From != "" || len(p.Left) > 0 }) {
		h.Chain.Symptom = "the next change will reach no node"
	}
	for _, p := range pods {
		why := d.unready(p)
		h.explain(why)
	}
	if len(pods) == 0 {
		h.because("there is no pod of it: its Deployment is scaled to 0, or cannot make one")
		h.Remedies = append(h.Remedies, act(inMCO+"scale deployment "+name+" --replicas=1", "starts it; it renders what has waited and takes the next nodes"))
	}
	d.add(h)
}

// operator is about what the operator says of itself where nothing explains it.
func (d *diagnosis) operator(s *status.Status) {
	if s.Operator == nil || len(d.HoldUps) > 0 {
		return
	}
	for _, c := range s.Operator.Conditions {
		if c.Type == "Available" && c.Status != "True" || c.Type == "Degraded" && c.Status == "True" {
			d.add(HoldUp{
				Chain:    chain("ClusterOperator machine-config reports "+c.Type+" "+c.Status, cmp.Or(c.Message, c.Reason, "it does not say why")),
				Remedies: []Remedy{look(inMCO+"logs deployment/machine-config-operator", "shows what it is at")},
			})
		}
	}
}
