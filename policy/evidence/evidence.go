// Package evidence decides what the facts about places prove of one image: whether nodes get it today, and
// whether they will by its new route. Only a proof weakens a denial. It imports the vocabulary (package policy),
// settings, mirrors, signing and what a rollout knows of nodes, and knows neither plans nor rules.
package evidence

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// This file decides what facts prove. A fact is a registry's answer to the guard, which is not
// always its answer to nodes: they may have other credentials, or ask at another time.
// If nodes may get another answer, a fact proves nothing, and counts as no answer.

// A Step is one place of an image's old or new route; k is its position.
type Step struct {
	*Reroute
	Route  *mirrors.Route
	k      int
	before bool
}

func (s Step) source() *mirrors.PullSource { return &s.Route.Sources[s.k] }

// prove returns what f, a fact about the place, proves: f itself, unless that differs from what
// it says.
func (s Step) prove(f *policy.Fact, facts policy.Facts) *policy.Fact {
	if s.before {
		return s.proveBefore(f, facts)
	}
	return s.proveAfter(f)
}

// Counted returns what counts about s instead of f, the fact about it: where more of its manifest is
// wanted, the fact about that.
func (r *Reroute) Counted(s *mirrors.PullSource, f *policy.Fact, facts policy.Facts) *policy.Fact {
	if !r.WantsManifest(s, f) {
		return f
	}
	if answer, asked := facts[Deeper(s.Location)]; asked {
		return answer
	}
	if r.wantsPlatforms(s.Location, f) {
		return &policy.PlatformsNotAsked
	}
	return f // and its signatures were not asked for
}

// wantsPlatforms reports whether f, which says that the image is there, leaves open
// whether nodes of every platform get one. A digest names the same index wherever it is
// served. Under a tag, a copy of one platform may stand for an index of several. In a
// cluster of one platform it does not matter as long as the digest is that which runs.
func (r *Reroute) wantsPlatforms(l mirrors.Location, f *policy.Fact) bool {
	if !r.Platforms || l.Depth > mirrors.DepthExists || f.Presence != policy.Present {
		return false
	}
	return !r.OnePlatform || !r.runs(f.Digest)
}

// WantsManifest reports whether f, which says that the image is at s, leaves questions about its manifest open:
// for which platforms it is, or where signatures of its parts would be, whatever it is pulled by.
func (r *Reroute) WantsManifest(s *mirrors.PullSource, f *policy.Fact) bool {
	if r.wantsPlatforms(s.Location, f) {
		return true
	}
	_, known := f.Runs()
	return f.Presence == policy.Present && !known && s.WantsSignatures()
}

// runs reports whether a node said that it runs the image with this digest.
func (r *Reroute) runs(digest string) bool {
	return digest != "" && slices.ContainsFunc(r.Image.Consumers, func(c policy.Consumer) bool {
		return c.Use == policy.Running && c.Digest == digest
	})
}

// Deeper returns the location that the second step looks up instead of l.
func Deeper(l mirrors.Location) mirrors.Location {
	l.Depth = max(l.Depth, mirrors.DepthManifest)
	return l
}

// proveAfter is prove for the new route. To be refused there counts, unless nodes may have
// credentials that the guard has not:
//
//   - The guard may not have been able to read their pull secret.
//   - At the host that the reference names, nodes use the pull secrets of pods
//     (newImageSourceAttempt in containers/image docker/docker_image_src.go). 401 and 403 prove
//     nothing there. Nor does 404 where a consumer of the image may have such a secret, or runs
//     this very digest: registries hide private repositories.
//   - Where CRI-O's credential provider may find credentials in a pod's namespace, 401 and
//     403 prove nothing at any place.
//
// An assumed deletion counts for every puller.
func (s Step) proveAfter(f *policy.Fact) *policy.Fact {
	switch {
	case f.Presence != policy.Denied && f.Presence != policy.Absent, f.Assumed != "":
		return f
	case !f.AsNodes,
		f.Presence == policy.Denied && (s.isAtSource() || s.OtherCredentials || s.Puller != mirrors.Nodes),
		f.Presence == policy.Absent && s.isAtSource() && s.doubt() != "":
		return s.unproven(f)
	default:
		return f
	}
}

// proveBefore is prove for the old route, where a failure would weaken a denial.
//
// A miss that is only Recalled proves nothing, unless the image is not protected, and the new route asks that place too, requires no
// more of it, and asks none before it that may end the pull: if the place has the image by now, both routes do.
func (s Step) proveBefore(f *policy.Fact, facts policy.Facts) *policy.Fact {
	switch {
	case f.Presence == policy.Present, f.Presence == policy.Unknown, f.Presence == policy.Unreachable:
		return f
	case f.Presence != policy.Absent, !f.AsNodes,
		s.doubt() != "" && (s.OtherCredentials || s.isAtSource()),
		f.Recalled && (s.Protected || !s.stillReaches(*s.source(), facts)):
		return s.unproven(f)
	default:
		return f
	}
}

// stillReaches reports whether nodes reach a place of the old route on the new one as well, because all places before it
// refuse, and require no more there.
func (r *Reroute) stillReaches(place mirrors.PullSource, facts policy.Facts) bool {
	for _, s := range r.After.Sources {
		switch f := facts.At(s.Location); {
		case !s.Tried():
		case s.Location == place.Location:
			return s.AsksNoMore(place)
		case f.Presence != policy.Absent && f.Presence != policy.Denied, !f.AsNodes:
			return false
		}
	}
	return false
}

// unproven returns f as no answer. A fact that ends a pull still does, whether or not nodes get the image.
func (r *Reroute) unproven(f *policy.Fact) *policy.Fact {
	unsure := *f
	unsure.Detail = policy.Describe(f)
	if refused := f.Presence == policy.Absent || f.Presence == policy.Denied; refused && !f.AsNodes {
		unsure.Detail += "; " + askedOtherwise
	} else if why := cmp.Or(r.doubt(), r.secretsOfNamespace()); why != "" {
		unsure.Detail += "; " + why
	}
	if unsure.Presence = policy.Unreachable; f.Presence.EndsPull() {
		unsure.Presence = policy.Inconclusive
	}
	return &unsure
}

// askedOtherwise says why a refusal proves nothing where policy.Fact.AsNodes is not set.
const askedOtherwise = "it was asked without the pull secret of the nodes, which could not be read"

// doubt says why nodes may get an image that a registry refuses to the guard, or says it
// does not have; "" if nodes would be told the same.
func (r *Reroute) doubt() string {
	if r.Puller == mirrors.Nodes && r.OtherCredentials {
		return "nodes may have other credentials through CRIOCredentialProviderConfig"
	}
	_, digest, _ := strings.Cut(r.Image.Ref, "@")
	neverRanIn := r.neverRan()
	for i := range r.Image.Consumers {
		switch c := &r.Image.Consumers[i]; {
		case c.Use == policy.History, c.OwnPullSecret && neverRanIn(c.Namespace):
		case c.PullSecretUnknown:
			return "nodes may have a pull secret of " + c.String() + ", whose service account is not known"
		case c.OwnPullSecret:
			return "nodes may have a pull secret of " + c.String()
		case c.Use == policy.Running && digest != "" && c.Digest == digest:
			return "yet " + c.String() + " runs this digest"
		}
	}
	return ""
}

// secretsOfNamespace says that others than nodes have secrets that are not read, at mirrors too: imports and
// the integrated registry all of an ImageStream's namespace (openshift-apiserver,
// pkg/image/apiserver/registry/imagesecret/rest.go, Get), builds that of their strategy or those of their
// service account. They use the nodes' pull secret besides (importer/staticcredentials.go,
// nodeCredentialsDir).
func (r *Reroute) secretsOfNamespace() string {
	if r.Puller == mirrors.Nodes || len(r.Image.Consumers) == 0 {
		return ""
	}
	return "a secret in namespace " + r.Image.Consumers[0].Namespace + " may let " + r.Puller.String() + " in"
}

// neverRan returns whether no pod of a namespace has ever had the image, as nodes say. The pull secrets that
// are named there prove nothing then: they may not exist, and a tenant's dead reference would decide about
// everybody's changes. An image that is protected, or has run, keeps them; only pods count, as a Deployment
// without replicas has a ReplicaSet too.
func (r *Reroute) neverRan() func(namespace string) bool {
	ranIn := sync.OnceValue(func() map[string]bool {
		in := map[string]bool{}
		for i := range r.Image.Consumers {
			if c := &r.Image.Consumers[i]; c.Kind == "Pod" && !c.NeverRan {
				in[c.Namespace] = true
			}
		}
		return in
	})
	return func(namespace string) bool {
		return !r.Protected && r.Site != nil && r.Site.podsListed(namespace) && !ranIn()[namespace]
	}
}

// isAtSource reports whether the place is at the host that its candidate names: that of the
// source that is not a mirror. References on a route are normalised, so that each registry has
// one name.
func (s Step) isAtSource() bool {
	at := s.source()
	for _, other := range s.Route.Sources[s.k:] { // containers/image puts the source last
		if !other.Mirror && other.Candidate == at.Candidate {
			return other.Host() == at.Host()
		}
	}
	return false
}
