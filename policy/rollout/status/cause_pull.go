package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// pullRemedies are what can be done for an image that a node cannot pull by its route.
func (d *diagnosis) pullRemedies(image, node string, route path) []Remedy {
	var remedies []Remedy
	if mirror, ok := d.toCopyTo(route); ok {
		remedies = append(remedies, act(copyCommand(image, mirror.Ref), "copies the image to the mirror, if it can still be had at its source; whoever waits for it tries again by itself"))
	}
	remedies = append(remedies, d.signRemedies(route)...)
	for _, l := range route.open() {
		switch host, _, _ := strings.Cut(l.Ref, "/"); d.answer(l) {
		case HoldsDenied:
			remedies = append(remedies, act("oc set data secret/pull-secret -n openshift-config --from-file=.dockerconfigjson=FILE",
				"gives all nodes the credentials in FILE, which has to have the old ones too, and those for "+host+"; no node is drained"))
		case HoldsAway:
			remedies = append(remedies, look(fmt.Sprintf("oc debug node/%s -- chroot /host curl -sSI https://%s/v2/", arg(node), arg(host)), "says whether the node reaches "+host))
		}
	}
	return remedies
}

// toCopyTo returns the first mirror that a node asks and that is not known to have the image.
func (d *diagnosis) toCopyTo(route path) (mirrors.Location, bool) {
	for _, l := range route.open() {
		if holds := d.answer(l); l.Source.Mirror && (holds == "" || holds == HoldsNot || holds == HoldsOther) {
			return l.Location, true
		}
	}
	return mirrors.Location{}, false
}

// signRemedies copy signatures that nodes accept from where they are to where nodes look for them:
// to the first place that has the image, and to the mirror that it is copied to first.
func (d *diagnosis) signRemedies(route path) []Remedy {
	to := slices.IndexFunc(route.open(), func(p PlaceAsked) bool {
		holds := d.answer(p)
		return p.Source.Mirror && (holds == HoldsNot || holds == HoldsOther) || holds == HoldsUnsigned || holds == HoldsMissigned
	})
	if to < 0 {
		return nil
	}
	at := route.open()[to]
	var remedies []Remedy
	for _, from := range route.open() {
		for _, s := range d.Evidence.Places[from.Place].Signatures {
			there, ok := at.Signatures(s.Digest)
			if !s.Accepted || !ok || there.Ref == s.At || d.isSigned(at, s.Digest) || slices.ContainsFunc(remedies, func(r Remedy) bool { return strings.HasSuffix(r.Command, " docker://"+arg(there.Ref)) }) {
				continue
			}
			remedies = append(remedies, act(fmt.Sprintf("skopeo copy --preserve-digests docker://%s docker://%s", arg(s.At), arg(there.Ref)),
				"copies its signature, which nodes accept, to where they look for it"))
		}
	}
	return remedies
}

// isSigned reports whether nodes accept what is signed of an instance at a place.
func (d *diagnosis) isSigned(at PlaceAsked, digest string) bool {
	return slices.ContainsFunc(d.Evidence.Places[at.Place].Signatures, func(s SignatureAnswer) bool { return s.Digest == digest && s.Accepted })
}

// copyCommand copies an image. What is copied by digest goes without a tag, and as the whole
// list that the digest is of.
func copyCommand(image, to string) string {
	repository, _, byDigest := strings.Cut(to, "@")
	if byDigest {
		return fmt.Sprintf("oc image mirror --keep-manifest-list=true %s %s", arg(image), arg(repository))
	}
	return fmt.Sprintf("oc image mirror %s %s", arg(image), arg(to))
}

// revert is to take back the mirror object by which a pod is sent to a mirror, with what that
// does to nodes; false if none is.
func (d *diagnosis) revert(image, namespace string) (Remedy, bool) {
	if d.rejected != nil || d.MirrorsUnknown != nil {
		return Remedy{}, false
	}
	route, err := d.resolution.Route(image, namespace)
	if err != nil || route.Entry == "" {
		return Remedy{}, false
	}
	makers := d.resolution.Origin(route.Entry).Makers
	i := slices.IndexFunc(d.set.Objects, func(o mirrors.Object) bool { return len(makers) == 1 && mirrors.NameOf(o) == makers[0] })
	if i < 0 {
		return Remedy{}, false // several, or a list of Image cluster: which is to go is not clear
	}
	o := d.set.Objects[i]
	command := fmt.Sprintf("oc delete %s %s", strings.ToLower(mirrors.KindOf(o)), arg(o.GetName()))
	return act(command, "takes the mirrors back, and all others of that object. "+d.reverted(mirrors.Delete(o))), true
}

// reverted says what a change of mirror objects does to nodes.
func (d *diagnosis) reverted(edit mirrors.Edit) string {
	after := edit.Apply(d.set)
	forecast := rollout.NewForecast(d.Cluster, func(pool string) (rollout.Decision, error) {
		was, err := mirrors.Rendered(d.set.At(pool))
		if err != nil {
			return rollout.Decision{}, err
		}
		is, err := mirrors.Rendered(after.At(pool))
		if err != nil {
			return rollout.Decision{}, err
		}
		return rollout.Decide(was, is, d.Cluster.Conditions())
	}, rollout.Settings{})
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
			of = "pools " + text.Names(pools[does], shown)
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
