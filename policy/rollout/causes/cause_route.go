package causes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

// pull returns the result of a route, and notes that its places should be asked.
func (d *diagnosis) pull(route status.Path) rollout.Pull {
	d.askPlaces(route.Open())
	if route.Refused != "" {
		return rollout.PullFails
	}
	for _, l := range route.Open() {
		switch d.answer(l) {
		case policy.Present:
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
func (d *diagnosis) pullBy(config, namespace, image string) rollout.Pull {
	route, unknown := d.RouteBy(config, namespace, image)
	if unknown != "" {
		return rollout.PullUnknown
	}
	return d.pull(route)
}

// landing lists the nodes that a replacement of a pod may go to, by whether they can pull its image.
type landing struct{ works, fails, unknown []string }

// all returns all nodes.
func (l landing) all() []string { return slices.Concat(l.works, l.fails, l.unknown) }

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
		nodes = avoided
	}
	var l landing
	by := map[string]rollout.Pull{} // config
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
	return l
}

// pullOn is pull on a node, which need not pull what it has. By keeps the results for configs.
func (d *diagnosis) pullOn(n *corev1.Node, p *rollout.Pod, image string, by map[string]rollout.Pull) rollout.Pull {
	if image == "" {
		return rollout.PullUnknown
	}
	spares := slices.ContainsFunc(p.Spec.Containers, func(c rollout.Container) bool { return c.Image == image && c.Pull == corev1.PullIfNotPresent })
	has := slices.ContainsFunc(n.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) })
	if spares && has {
		return rollout.PullWorks
	}
	config := rollout.ReportOf(n).Current
	if _, known := by[config]; !known {
		by[config] = d.pullBy(config, p.Namespace, image)
	}
	return by[config]
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

// ahead explains a node that will get the config by which it can pull the image only after the drain
// that waits for the pod.
func (d *diagnosis) ahead(w *explanation, p *rollout.Pod, image string) bool {
	pool, n := d.poolOf(p.Node), d.NodeOf[p.Node]
	if pool == nil || n == nil || pool.Target == "" {
		return false
	}
	r := rollout.ReportOf(n)
	if r.Current == pool.Target || r.Desired != r.Current || d.pullBy(pool.Target, p.Namespace, image) != rollout.PullWorks {
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
	if _, ok := d.toCopyTo(route); ok || pool == nil || d.pull(route) == rollout.PullWorks {
		return
	}
	next, unknown := d.RouteBy(pool.Target, p.Namespace, image)
	mirror, ok := d.toCopyTo(next)
	if unknown != "" || !ok || rollout.ReportOf(d.NodeOf[p.Node]).Current == pool.Target {
		return
	}
	w.because(fmt.Sprintf("pool %s is to have %s, by which nodes look for it at %s", pool.Name, pool.Target, strings.Join(status.PlacesOf(next.Route), ", then ")))
	if link := d.answersLink(next.Open()); link != "" {
		w.because(link)
	}
	w.remedies = append(w.remedies, d.copies(image, mirror, next)...)
}

// lostPlace is a place that nodes asked for an image before a change, and no longer ask.
type lostPlace struct {
	status.PlaceAsked
	// by says which object did it; command puts it back, and after is the configuration in force
	// then. They are empty where that is not clear.
	by, command string
	after       *mirrors.Set
}

// lost explains an image whose route was taken away by the change that rolls out: by which object, and
// how to take that back.
func (d *diagnosis) lost(w *explanation, p *rollout.Pod, image string, route status.Path) {
	pool, n := d.poolOf(p.Node), d.NodeOf[p.Node]
	if pool == nil || n == nil || d.rejected != nil || d.MirrorsUnknown != nil || rollout.ReportOf(n).Current != pool.Target {
		return
	}
	old := from(pool)
	before, unknown := d.RouteBy(old, p.Namespace, image)
	if unknown != "" || old == pool.Target || before.Err != nil {
		return
	}
	works := d.pull(before)
	for _, place := range d.lostPlaces(before, route, image) {
		w.because(fmt.Sprintf("nodes with %s look for it at %s as well; %s", old, place.Ref, place.by))
		answer := d.answer(place.PlaceAsked)
		if place.command == "" || works == rollout.PullFails || answer == policy.Absent || answer == policy.Unreachable {
			continue
		}
		w.remedies = append(w.remedies, d.wayBack(place.command, "takes that back. ", *place.after, p))
	}
}

// wayBack returns a command that puts another set in force and, if MCO renders the pool's config of
// before from it, which has a known name, gives the node that config.
func (d *diagnosis) wayBack(command, effect string, after mirrors.Set, p *rollout.Pod) Remedy {
	effect += d.becomes(after)
	pool := d.poolOf(p.Node)
	if pool == nil || d.Rendered[from(pool)] == nil || from(pool) == pool.Target {
		return act(command, effect)
	}
	if differences, err := verify.PullDifferences(after, pool.Name, d.Rendered[from(pool)]); err != nil || len(differences) > 0 {
		return act(command, effect)
	}
	return act(fmt.Sprintf("%s && oc wait machineconfigpool/%s --for=jsonpath='{.spec.configuration.name}'=%s --timeout=5m && %s", command, text.Argument(pool.Name), text.Argument(from(pool)), d.give(p, from(pool))),
		fmt.Sprintf("%s. Node %s, whose turn comes after the drain that waits, is given it first", effect, p.Node))
}

// from returns the config of nodes that are not updated yet.
func from(p *status.Pool) string { return cmp.Or(p.From, p.Current) }

// lostPlaces returns the places of one route that another lacks.
func (d *diagnosis) lostPlaces(before, now status.Path, image string) []lostPlace {
	var lost []lostPlace
	for _, l := range before.Open() {
		i := slices.IndexFunc(now.Sources, func(s mirrors.PullSource) bool { return s.Ref == l.Ref })
		switch {
		case i < 0:
			lost = append(lost, d.removed(l, before, image))
		case now.Sources[i].Blocked:
			lost = append(lost, d.blocked(l, now.Sources[i].BlockedBy))
		case now.Sources[i].Refused:
			lost = append(lost, d.refusedBy(l))
		}
	}
	return lost
}

// blocked is about a place that an entry of registries.conf blocks by now.
func (d *diagnosis) blocked(l status.PlaceAsked, scope string) lostPlace {
	lost := lostPlace{PlaceAsked: l, by: fmt.Sprintf("the entry for %s blocks it now", scope)}
	origin := d.resolution.BlockOrigin(scope)
	switch {
	case origin.MachineConfig != "":
		lost.by += ", by MachineConfig " + origin.MachineConfig
	case origin.Listed != "":
		lost.by = fmt.Sprintf("blockedRegistries of Image cluster lists %s now", origin.Listed)
		i := slices.Index(d.set.Registries.BlockedRegistries, origin.Listed)
		at := fmt.Sprintf("/spec/registrySources/blockedRegistries/%d", i)
		lost.command = patchImage(operation{"test", at, origin.Listed}, operation{"remove", at, nil})
		after := d.set
		after.Registries.BlockedRegistries = slices.Delete(slices.Clone(after.Registries.BlockedRegistries), i, i+1)
		lost.after = &after
	case len(origin.Never) > 0:
		lost.by = fmt.Sprintf("%s says NeverContactSource", text.Names(origin.Never, status.Shown))
		if o := d.object(origin.Never); o != nil {
			after := mirrors.Delete(o).Apply(d.set)
			lost.after, lost.command = &after, deleteCommand(o)
		}
	}
	return lost
}

// refusedBy is about a place that policy.json refuses by now.
func (d *diagnosis) refusedBy(l status.PlaceAsked) lostPlace {
	lost := lostPlace{PlaceAsked: l, by: "policy.json refuses it now"}
	allowed := d.set.Registries.AllowedRegistries
	if len(allowed) == 0 {
		return lost
	}
	lost.by = "allowedRegistries of Image cluster does not list it now"
	lost.command = patchImage(operation{"add", "/spec/registrySources/allowedRegistries/-", mirrors.RepositoryOf(l.Ref)})
	after := d.set
	after.Registries.AllowedRegistries = append(slices.Clone(allowed), mirrors.RepositoryOf(l.Ref))
	lost.after = &after
	return lost
}

// removed is about a mirror to which no object leads any more.
func (d *diagnosis) removed(l status.PlaceAsked, before status.Path, image string) lostPlace {
	lost := lostPlace{PlaceAsked: l, by: fmt.Sprintf("the mirror object that had this mirror of %s has been deleted or changed since", before.Entry)}
	source, mirror := before.Entry, mirrors.RepositoryOf(l.Ref)
	if rest, ok := strings.CutPrefix(mirrors.RepositoryOf(image), source); ok && strings.HasSuffix(mirror, rest) {
		mirror = strings.TrimSuffix(mirror, rest)
	} else {
		source = mirrors.RepositoryOf(image)
	}
	policy := configv1.AllowContactingSource
	if before.SourceBlocked() {
		policy = configv1.NeverContactSource
	}
	o := mirrorObject("put-back", source, mirror, policy, strings.Contains(image, "@"))
	data, err := json.Marshal(o)
	if err != nil || !l.Source.Mirror {
		return lost
	}
	after := mirrors.Put(o).Apply(d.set)
	lost.after, lost.command = &after, "printf %s "+text.Argument(string(data))+" | oc create -f -"
	return lost
}

// mirrorObject is an object with one mirror.
func mirrorObject(name, source, mirror string, policy configv1.MirrorSourcePolicy, byDigest bool) mirrors.Object {
	kind := func(k string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: k}
	}
	to := []configv1.ImageMirror{configv1.ImageMirror(mirror)}
	if byDigest {
		return &configv1.ImageDigestMirrorSet{
			TypeMeta: kind("ImageDigestMirrorSet"), ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: source, Mirrors: to, MirrorSourcePolicy: policy}}},
		}
	}
	return &configv1.ImageTagMirrorSet{
		TypeMeta: kind("ImageTagMirrorSet"), ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{{Source: source, Mirrors: to, MirrorSourcePolicy: policy}}},
	}
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchImage changes Image cluster.
func patchImage(operations ...operation) string {
	data, err := json.Marshal(operations)
	if err != nil {
		return ""
	}
	return "oc patch image.config.openshift.io cluster --type=json -p " + text.Argument(string(data))
}
