package causes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// pullOf explains that a node cannot pull an image: by which route, and what its places answer now.
func (d *diagnosis) pullOf(image, node string, route status.Path, unknown string) explanation {
	w := explanation{cause: ImageNotPulled, subject: image}
	if unknown != "" {
		w.because("where it looks for the image is not known: " + unknown)
		return w
	}
	w.because(fmt.Sprintf("node %s looks for it at %s", node, strings.Join(status.PlacesOf(route.Route), ", then ")))
	if route.Refused != "" {
		w.because("its signature policy refuses the image: " + route.Refused)
	}
	if required := requirement(route.Route); required != "" {
		w.because(required)
	}
	open := route.Open()
	d.askPlaces(open)
	if link := d.answersLink(open); link != "" {
		w.because(link)
	}
	w.remedies = d.pullRemedies(image, node, route)
	return w
}

// requirement says what nodes require of the signatures of an image, "" for nothing.
func requirement(route mirrors.Route) string {
	if len(route.Sources) == 0 || route.Sources[0].Trust == nil {
		return ""
	}
	return "nodes require a signature of it (" + route.Sources[0].Trust.Origin(status.Shown) + "), and look for it only at the first place that has the image"
}

// pullRemedies returns what can be done for an image that a node cannot pull by its route.
func (d *diagnosis) pullRemedies(image, node string, route status.Path) []Remedy {
	var remedies []Remedy
	if to, ok := d.toCopyTo(route, node); ok {
		remedies = append(remedies, d.copies(image, node, to, route)...)
	}
	remedies = append(remedies, d.signRemedies(route, node)...)
	for _, l := range route.Open() {
		switch host := l.Host(); d.answer(l) {
		case policy.Denied:
			remedies = append(remedies, act("oc set data secret/pull-secret -n openshift-config --from-file=.dockerconfigjson=FILE",
				"gives all nodes the credentials in FILE, which has to have all old ones as they are, and those for "+host+", by a longer path where there is an entry; no node is drained"))
		case policy.Unreachable:
			remedies = append(remedies, look(fmt.Sprintf("oc debug node/%s -- chroot /host curl -sSI https://%s/v2/", text.Argument(node), text.Argument(host)), "says whether the node reaches "+host))
		}
	}
	return remedies
}

// copies brings an image for a node to a mirror: from its source, unless that is known not to have it, then from
// another place that has it, then from a node on which it runs, unless the mirror has it for others.
func (d *diagnosis) copies(image, node string, to status.PlaceAsked, route status.Path) []Remedy {
	mirror, again := to.Location, "; what waits for it tries again by itself"
	if !mirrors.ByDigest(mirror.Ref) && d.answer(to) != policy.Absent {
		again = "; whatever else the mirror has under that tag is replaced" + again
	}
	source := d.source(image, route)
	d.askPlaces([]status.PlaceAsked{source})
	switch answer := d.answer(source); {
	case answer == policy.Unreachable || isWithout(answer) || d.lacks(source, node):
	case !d.isAsked(source):
		return []Remedy{act(copyCommand(source.Location, mirror), "copies the image to the mirror, if it can still be had at its source"+again)}
	default:
		return []Remedy{act(copyCommand(source.Location, mirror), "copies the image from its source to the mirror"+again)}
	}
	for _, at := range d.Asks.Places {
		if d.answer(at) == policy.Present && at.Ref != mirror.Ref && !d.lacks(at, node) && d.isOf(image, route.Namespace, at) {
			return []Remedy{act(copyCommand(at.Location, mirror), "copies the image to the mirror from where it still is"+again)}
		}
	}
	has := d.runsOn(image)
	if has == "" || d.lacks(to, node) || strings.Contains(image, "@") { // layers are compressed anew, which makes another digest
		return nil
	}
	return []Remedy{act(fmt.Sprintf("oc debug node/%s -- chroot /host podman push --authfile /var/lib/kubelet/config.json %s docker://%s", text.Argument(has), text.Argument(image), text.Argument(mirror.Ref)),
		fmt.Sprintf("its source does not have it either: pushes it to the mirror from node %s, where it runs, with the nodes' credentials, which have to allow that%s", has, again))}
}

// source is where the image itself is, whether or not nodes ask there.
func (d *diagnosis) source(image string, route status.Path) status.PlaceAsked {
	for _, s := range route.Sources {
		if !s.Mirror {
			return status.PlaceAsked{Place: status.Place{Location: s.Location, Namespace: route.Namespace}, Source: s}
		}
	}
	location := mirrors.Location{Ref: image}
	return status.PlaceAsked{Place: status.Place{Location: location, Namespace: route.Namespace}, Source: mirrors.PullSource{Location: location}}
}

// isOf reports whether a place is on a route of an image, by any config. Under the same tag, a place that was asked for another image
// has another one.
func (d *diagnosis) isOf(image, namespace string, at status.PlaceAsked) bool {
	for config := range d.Rendered {
		route, unknown := d.RouteBy(config, namespace, image)
		if unknown == "" && slices.ContainsFunc(route.Sources, func(s mirrors.PullSource) bool { return s.Ref == at.Ref }) {
			return true
		}
	}
	return false
}

// runsOn returns a node on which a pod runs that has an image, "" for none.
func (d *diagnosis) runsOn(image string) string {
	for i := range d.Cluster.Pods {
		p := &d.Cluster.Pods[i]
		if p.Ready && p.Spec != nil && p.Node != "" && slices.ContainsFunc(p.Spec.Containers, func(c rollout.Container) bool { return c.Image == image }) {
			return p.Node
		}
	}
	return ""
}

// toCopyTo returns the first mirror that a node asks and that is not known to have the image for it.
func (d *diagnosis) toCopyTo(route status.Path, node string) (status.PlaceAsked, bool) {
	for _, l := range route.Open() {
		if l.Source.Mirror && (!d.isAsked(l) || isWithout(d.answer(l)) || d.lacks(l, node)) {
			return l, true
		}
	}
	return status.PlaceAsked{}, false
}

// signRemedies copy signatures that nodes accept from where they are to where nodes look for them:
// to the first place that has the image, and to the mirror that it is copied to first.
func (d *diagnosis) signRemedies(route status.Path, node string) []Remedy {
	mirror, _ := d.toCopyTo(route, node)
	to := slices.IndexFunc(route.Open(), func(p status.PlaceAsked) bool {
		answer := d.answer(p)
		return p.Ref == mirror.Ref || answer == policy.Unsigned || answer == policy.Missigned
	})
	if to < 0 {
		return nil
	}
	at := route.Open()[to]
	effect := "copies its signature, which nodes accept, to where they look for it"
	if d.answer(at) != policy.Unsigned {
		effect += "; whatever else is under that tag is replaced"
	}
	var remedies []Remedy
	for _, from := range route.Open() {
		for _, s := range d.Evidence.Places[from.Place].Signatures {
			there, ok := at.Signatures(s.Digest)
			if !s.Accepted || !ok || there.Ref == s.At || d.isSigned(at, s.Digest) || slices.ContainsFunc(remedies, func(r Remedy) bool { return strings.HasSuffix(r.Command, " docker://"+text.Argument(there.Ref)) }) {
				continue
			}
			remedies = append(remedies, act(policy.CopyCommand("--preserve-digests", mirrors.Location{Ref: text.Argument(s.At), Insecure: from.Insecure}, mirrors.Location{Ref: text.Argument(there.Ref), Insecure: there.Insecure}), effect))
		}
	}
	return remedies
}

// isSigned reports whether nodes accept a signature of an instance at a place.
func (d *diagnosis) isSigned(at status.PlaceAsked, digest string) bool {
	return slices.ContainsFunc(d.Evidence.Places[at.Place].Signatures, func(s status.SignatureAnswer) bool { return s.Digest == digest && s.Accepted })
}

// copyCommand copies an image with all of its parts, as the remedies of findings do.
func copyCommand(from, to mirrors.Location) string {
	from.Ref, to.Ref = text.Argument(from.Ref), text.Argument(to.Ref)
	return policy.CopyCommand("--all --preserve-digests", from, to)
}
