package causes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// pull returns the result of a route for a node, and notes that its places should be asked.
func (d *diagnosis) pull(route status.Path, node string) rollout.Pull {
	d.askPlaces(route.Open())
	if route.Refused != "" {
		return rollout.PullFails
	}
	for _, l := range route.Open() {
		switch d.answer(l) {
		case policy.Present:
			switch {
			case d.lacks(l, node):
				return rollout.PullFails
			case len(d.Evidence.Places[l.Place].Without) > 0 && d.platformOf(node) == "":
				return rollout.PullUnknown
			}
			return rollout.PullWorks
		case policy.Absent, policy.Unreachable, policy.Denied, policy.Mismatch, policy.Incomplete: // the next one is asked
		case policy.Unsigned, policy.Missigned:
			return rollout.PullFails
		default:
			return rollout.PullUnknown
		}
	}
	return rollout.PullFails
}

// pullBy is pull by a rendered config.
func (d *diagnosis) pullBy(config, namespace, image, node string) rollout.Pull {
	route, unknown := d.RouteBy(config, namespace, image)
	if unknown != "" {
		return rollout.PullUnknown
	}
	return d.pull(route, node)
}

// landing lists the nodes that a replacement of a pod may go to, by whether they can pull its image. Avoided says that one
// of those cannot, or may not, which the scheduler takes only where the others have no place.
type landing struct {
	works, fails, unknown []string
	avoided               bool
}

// isSafe reports whether the image can be pulled wherever the pod may go.
func (l landing) isSafe() bool { return len(l.works) > 0 && len(l.fails)+len(l.unknown) == 0 }

// landing looks at the nodes that a pod may run on. The scheduler avoids those that wait for the
// update if there are others, by the taint that MCO gives them (UpdateInProgress). Without an image it is
// not asked whether it can be pulled.
func (d *diagnosis) landing(p *rollout.Pod, image string) landing {
	var nodes, avoided []*corev1.Node
	for _, n := range d.eligible(p) {
		switch {
		case n.Spec.Unschedulable, rollout.ReportOf(n).IsDraining():
		case slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }):
			avoided = append(avoided, n)
		default:
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		nodes, avoided = avoided, nil
	}
	var l landing
	by := map[nodeKind]rollout.Pull{}
	for _, n := range nodes {
		switch d.pullOn(n, p, image, by) {
		case rollout.PullWorks:
			l.works = append(l.works, n.Name)
		case rollout.PullFails:
			l.fails = append(l.fails, n.Name)
		default:
			l.unknown = append(l.unknown, n.Name)
		}
	}
	l.avoided = slices.ContainsFunc(avoided, func(n *corev1.Node) bool { return d.pullOn(n, p, image, by) != rollout.PullWorks })
	return l
}

// nodeKind is what decides on whether a node can pull an image.
type nodeKind struct{ config, platform string }

// pullOn is pull on a node, which need not pull what it has. By keeps the results.
func (d *diagnosis) pullOn(n *corev1.Node, p *rollout.Pod, image string, by map[nodeKind]rollout.Pull) rollout.Pull {
	if image == "" {
		return rollout.PullUnknown
	}
	spares := slices.ContainsFunc(p.Spec.Containers, func(c rollout.Container) bool { return c.Image == image && c.Pull == corev1.PullIfNotPresent })
	has := slices.ContainsFunc(n.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) })
	if spares && has {
		return rollout.PullWorks
	}
	kind := nodeKind{rollout.ReportOf(n).Current, policy.PlatformOf(n)}
	if _, known := by[kind]; !known {
		by[kind] = d.pullBy(kind.config, p.Namespace, image, n.Name)
	}
	return by[kind]
}

// poolOf returns the pool of a node, nil if none updates it.
func (d *diagnosis) poolOf(node string) *status.Pool {
	i := slices.IndexFunc(d.pools, func(p status.Pool) bool {
		return slices.ContainsFunc(p.Nodes, func(n rollout.Node) bool { return n.Name == node })
	})
	if i < 0 {
		return nil
	}
	return &d.pools[i]
}

// give returns the command that gives the node of a pod a config before its turn, as MCO does
// (setDesiredMachineConfigAnnotation in its pkg/controller/node/node_controller.go). Its drain moves the
// pod, which may come to another node of the old config: from there it is moved back.
func (d *diagnosis) give(p *rollout.Pod, config string) string {
	const prefix = "machineconfiguration.openshift.io/"
	command := fmt.Sprintf("oc annotate node %s --overwrite %sdesiredConfig=%s", text.Argument(p.Node), prefix, text.Argument(config))
	current := rollout.ReportOf(d.NodeOf[p.Node]).Current
	others := slices.ContainsFunc(d.Cluster.Nodes, func(n *corev1.Node) bool {
		return n.Name != p.Node && !n.Spec.Unschedulable && rollout.ReportOf(n).Current == current
	})
	labels := labelsOf(p)
	if !others || labels == "" || p.IsBare() {
		return command
	}
	return command + fmt.Sprintf(` && oc wait node/%s --for=jsonpath='{.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}'=%s --timeout=1h && %sdelete pod -l %s --field-selector status.phase=Pending`,
		text.Argument(p.Node), text.Argument(config), in(p.Namespace), labels)
}

// labelsOf selects the pods of an app, whatever their version and wherever they are; "" where that cannot
// be told.
func labelsOf(p *rollout.Pod) string {
	var pairs []string
	for key, value := range p.Spec.Labels {
		switch {
		case key == rollout.PodTemplateHash, key == revisionHash, key == "apps.kubernetes.io/pod-index", key == "statefulset.kubernetes.io/pod-name":
		case strings.HasPrefix(key, "topology.kubernetes.io/"): // those of its node (KEP-4742)
		default:
			pairs = append(pairs, key+"="+value)
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	slices.Sort(pairs)
	return text.Argument(strings.Join(pairs, ","))
}

const revisionHash = "controller-revision-hash"

// ahead explains a node that will get the config by which it can pull the image only after the drain
// that waits for the pod.
func (d *diagnosis) ahead(w *explanation, p *rollout.Pod, image string) bool {
	pool, n := d.poolOf(p.Node), d.NodeOf[p.Node]
	if pool == nil || n == nil || pool.Target == "" {
		return false
	}
	r := rollout.ReportOf(n)
	if r.Current == pool.Target || r.Desired != r.Current || d.pullBy(pool.Target, p.Namespace, image, p.Node) != rollout.PullWorks {
		return false
	}
	w.because(fmt.Sprintf("pool %s is to have %s, by which it could be pulled; node %s has %s, and its turn comes after that drain", pool.Name, pool.Target, p.Node, r.Current))
	first := act(d.give(p, pool.Target), "gives the node what its pool is to have before its turn; it is drained or rebooted if that asks for it")
	w.remedies = append([]Remedy{first}, w.remedies...)
	return true
}

// toCome explains a node that finds the image nowhere, and whose pool is to have a mirror that lacks it
// too.
func (d *diagnosis) toCome(w *explanation, p *rollout.Pod, image string, route status.Path) {
	pool := d.poolOf(p.Node)
	if _, ok := d.toCopyTo(route, p.Node); ok || pool == nil || d.pull(route, p.Node) == rollout.PullWorks {
		return
	}
	next, unknown := d.RouteBy(pool.Target, p.Namespace, image)
	mirror, ok := d.toCopyTo(next, p.Node)
	if unknown != "" || !ok || rollout.ReportOf(d.NodeOf[p.Node]).Current == pool.Target {
		return
	}
	w.because(fmt.Sprintf("pool %s is to have %s, by which nodes look for it at %s", pool.Name, pool.Target, strings.Join(status.PlacesOf(next.Route), ", then ")))
	if link := d.answersLink(next.Open()); link != "" {
		w.because(link)
	}
	w.remedies = append(w.remedies, d.copies(image, p.Node, mirror, next)...)
}
