package causes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

// lostPlace is a place that nodes asked for an image before a change, and no longer ask.
type lostPlace struct {
	status.PlaceAsked
	// by says which object did it; command puts it back, and after is the configuration in force
	// then. They are empty where that is not clear.
	by, command string
	after       mirrors.Set
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
	works := d.pull(before, p.Node)
	for _, place := range d.lostPlaces(before, route, image) {
		w.because(fmt.Sprintf("nodes with %s look for it at %s as well; %s", old, place.Ref, place.by))
		answer := d.answer(place.PlaceAsked)
		if place.command == "" || works == rollout.PullFails || answer == policy.Absent || answer == policy.Unreachable {
			continue
		}
		w.remedies = append(w.remedies, d.wayBack(place.command, "takes that back. ", place.after, image, p)...)
	}
}

// wayBack returns a command that puts another set in force and, if MCO renders the pool's config of
// before from it, which has a known name, gives the node that config. There is no remedy where MCO would
// reject that set, and with it all later changes, or the image could not be pulled then either.
func (d *diagnosis) wayBack(command, effect string, after mirrors.Set, image string, p *rollout.Pod) []Remedy {
	resolved, err := mirrors.NewResolution(after)
	if err != nil {
		return nil
	}
	then, err := resolved.Route(image, p.Namespace)
	if err != nil || d.pull(status.Path{Route: then}, p.Node) == rollout.PullFails {
		return nil
	}
	effect += d.becomes(after)
	if pool := d.poolOf(p.Node); pool != nil && d.Rendered[from(pool)] != nil && from(pool) != pool.Target {
		if differences, err := verify.PullDifferences(after, pool.Name, d.Rendered[from(pool)]); err == nil && len(differences) == 0 {
			command += fmt.Sprintf(" && oc wait machineconfigpool/%s --for=jsonpath='{.spec.configuration.name}'=%s --timeout=5m && %s", text.Argument(pool.Name), text.Argument(from(pool)), d.give(p, from(pool)))
			effect += fmt.Sprintf(". Node %s, whose turn comes after the drain that waits, is given it first", p.Node)
		}
	}
	return []Remedy{act(command, effect)}
}

// from returns the config of nodes that are not updated yet.
func from(p *status.Pool) string { return cmp.Or(p.From, p.Current) }

// revert deletes the mirror object that sends nodes to a mirror for the image of a pod, and says what
// that does to nodes. There is no remedy where that is not one object.
func (d *diagnosis) revert(image string, p *rollout.Pod) []Remedy {
	if d.rejected != nil || d.MirrorsUnknown != nil {
		return nil
	}
	route, err := d.resolution.Route(image, p.Namespace)
	if err != nil || route.Entry == "" {
		return nil
	}
	o := d.object(d.resolution.Origin(route.Entry).Makers)
	if o == nil {
		return nil // several, or a list of Image cluster: which is to go is not clear
	}
	return d.wayBack(deleteCommand(o), "takes the mirrors back, and all others of that object. ", mirrors.Delete(o).Apply(d.set), image, p)
}

// object returns the mirror object of that name, nil if there is none or more than one name, or if its owner would make it again.
func (d *diagnosis) object(names []string) mirrors.Object {
	i := slices.IndexFunc(d.set.Objects, func(o mirrors.Object) bool { return len(names) == 1 && mirrors.NameOf(o) == names[0] })
	if i < 0 || rollout.OwnerOf(d.set.Objects[i]) != nil {
		return nil
	}
	return d.set.Objects[i]
}

func deleteCommand(o mirrors.Object) string {
	return fmt.Sprintf("oc delete %s %s", strings.ToLower(mirrors.KindOf(o)), text.Argument(o.GetName()))
}

// becomes says what another set of mirror objects does to nodes.
func (d *diagnosis) becomes(after mirrors.Set) string {
	step := rollout.Step{Before: d.set, After: after}
	forecast := rollout.NewForecast(d.Cluster, step.Decisions(d.Cluster.Conditions()))
	nodes, pools := map[string]int{}, map[string][]string{} // by what happens to each node
	drains := false
	for _, p := range forecast.Pools {
		if len(p.Nodes) > 0 && p.Decision.Effect() != rollout.NoRollout {
			does := p.Decision.String()
			nodes[does] += len(p.Nodes)
			pools[does] = append(pools[does], p.Name)
			drains = drains || p.Decision.Drains
		}
	}
	var parts []string
	for _, does := range slices.Sorted(maps.Keys(nodes)) {
		of := "pool " + pools[does][0]
		if len(pools[does]) > 1 {
			of = "pools " + text.Names(pools[does], status.Shown)
		}
		parts = append(parts, text.Plural(nodes[does], "node of "+of+" "+does, "nodes of "+of+": each "+does))
	}
	words := "Then " + strings.Join(parts, "; ")
	switch {
	case len(parts) == 0:
		return "No node is drained"
	case drains:
		words += ". Drains wait for the same budgets until their pods run"
	}
	return words
}

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
		lost.after = d.set
		lost.after.Registries.BlockedRegistries = slices.Delete(slices.Clone(d.set.Registries.BlockedRegistries), i, i+1)
	case len(origin.Never) > 0:
		lost.by = fmt.Sprintf("%s says NeverContactSource", text.Names(origin.Never, status.Shown))
		if o := d.object(origin.Never); o != nil {
			lost.after, lost.command = mirrors.Delete(o).Apply(d.set), deleteCommand(o)
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
	lost.after = d.set
	lost.after.Registries.AllowedRegistries = append(slices.Clone(allowed), mirrors.RepositoryOf(l.Ref))
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
	lost.after, lost.command = mirrors.Put(o).Apply(d.set), "printf %s "+text.Argument(string(data))+" | oc create -f -"
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
