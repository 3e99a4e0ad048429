// Package evidence decides what the facts about places prove of one image: whether nodes get it today, and
// whether they will by its new route. Only a proof weakens a denial. It imports the vocabulary (package policy),
// settings, mirrors, signing and what a rollout knows of nodes, and knows neither plans nor rules.
package evidence

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// This file decides what facts prove. A fact is a registry's answer to the guard, which is not
// always its answer to nodes: they may have other credentials, or ask at another time.
// If nodes may get another answer, a fact proves nothing, and counts as no answer.
//
// Only a proof weakens a verdict, and the only proofs are those that the functions at the
// end of the file find on the old route. There, the only failure is a miss: the answer of a
// registry that was asked just now, with the very credentials that nodes have, for pods that
// have no others. A page instead of the image, an error or silence prove nothing: they may come
// from something in front of the registry, last for a minute, or be due to the network from here.

// WeighAfter returns what facts prove about the places of the new route.
func (r *Reroute) WeighAfter(facts policy.Facts) WeighedRoute { return r.Weigh(&r.After, facts, false) }

// WeighBefore returns what facts prove about the places of the old route.
func (r *Reroute) WeighBefore(facts policy.Facts) WeighedRoute {
	return r.Weigh(&r.Before, facts, true)
}

// Weigh returns what facts prove about the places of a route, of today or the new one.
func (r *Reroute) Weigh(route *mirrors.Route, facts policy.Facts, before bool) WeighedRoute {
	weighed := WeighedRoute{Route: route, Facts: facts.On(route)}
	for k, found := range weighed.Facts {
		f := r.Counted(&route.Sources[k], found, facts)
		if f == &policy.NotAsked {
			continue
		}
		step := Step{r, route, k, before}
		proved, signatures := step.prove(f, facts), route.Sources[k].WantsSignatures()
		if proved.Presence == policy.Present {
			proved = r.forItsNodes(proved, signatures)
		}
		if proved.Presence == policy.Present && signatures {
			var states []SignatureState
			if proved, states = step.withSignatures(proved, facts); len(states) > 0 {
				if weighed.signatures == nil {
					weighed.signatures = map[int][]SignatureState{}
				}
				weighed.signatures[k] = states
			}
		}
		weighed.Facts[k] = proved
	}
	return weighed
}

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
// A miss that is only Recalled proves nothing, unless the new route asks that place too, and
// asks none before it that may end the pull: if the place has the image by now, both routes do.
func (s Step) proveBefore(f *policy.Fact, facts policy.Facts) *policy.Fact {
	switch {
	case f.Presence == policy.Present, f.Presence == policy.Unknown, f.Presence == policy.Unreachable:
		return f
	case f.Presence != policy.Absent, !f.AsNodes,
		s.doubt() != "" && (s.OtherCredentials || s.isAtSource()),
		f.Recalled && !s.stillReaches(s.source().Location, facts):
		return s.unproven(f)
	default:
		return f
	}
}

// stillReaches reports whether nodes reach l on the new route as well, because all places before it
// refuse.
func (r *Reroute) stillReaches(l mirrors.Location, facts policy.Facts) bool {
	for _, s := range r.After.Sources {
		switch p := facts.At(s.Location).Presence; {
		case !s.Tried():
		case s.Location == l:
			return true
		case p != policy.Absent && p != policy.Denied:
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
	for _, c := range r.Image.Consumers {
		switch {
		case c.Use == policy.History, c.OwnPullSecret && r.neverRanIn(c.Namespace):
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

// neverRanIn reports whether no pod of a namespace has ever had the image, as nodes say. The pull secrets that
// are named there prove nothing then: they may not exist, and a tenant's dead reference would decide about
// everybody's changes. An image that is protected, or has run, keeps them; only pods count, as a Deployment
// without replicas has a ReplicaSet too.
func (r *Reroute) neverRanIn(namespace string) bool {
	return !r.Protected && r.Site != nil && r.Site.podsListed(namespace) && !slices.ContainsFunc(r.Image.Consumers, func(c policy.Consumer) bool {
		return c.Kind == "Pod" && c.Namespace == namespace && !c.NeverRan
	})
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

// A Proof is evidence by which a denial becomes a warning. The zero value proves nothing. Only
// the methods below make others.
type Proof struct{ Holds bool }

// DenyUnless returns Deny, or Warn where one of proofs holds.
func DenyUnless(proofs ...Proof) policy.Severity {
	for _, p := range proofs {
		if p.Holds {
			return policy.Warn
		}
	}
	return policy.Deny
}

// FailsToday is proof that nodes do not get the image today. Where the old route is not known, all
// routes by the objects in force or by none, and the new one, have to fail: the image is dead
// everywhere. That proves nothing for a protected or running image: nodes may have a mirror that no
// object names any more.
func (a *Case) FailsToday() Proof {
	fails := func(today *WeighedRoute) bool { return today.Pull(false) == Fails } // which is proved
	if !a.BeforeUnknown {
		return a.today(fails)
	}
	return Proof{!a.Protected && len(a.Running()) == 0 && a.OutcomeAfter == Fails && len(a.Rarely().Maybe) > 0 && !slices.ContainsFunc(a.OtherRoutes(), func(route *mirrors.Route) bool {
		maybe := a.Weigh(route, a.Found, true)
		return !fails(&maybe)
	})}
}

// mirrorsFailToday is proof that the mirrors of the old route do not serve the image, although
// it has some and nodes may contact its source.
func (a *Case) mirrorsFailToday() Proof {
	return a.today(func(today *WeighedRoute) bool {
		return today.HasOpenMirror() && today.Pull(true) == Fails && !today.SourceBlocked()
	})
}

// keepsPlaces is proof that nodes ask the same places as today, in the same way: the change is about
// requirements, and no promise that mirrors have the image. They must be known to lack it: one that
// denies, or sends a page, may serve it in a minute, and then its signatures count.
func (a *Case) keepsPlaces() Proof {
	mayServe := a.NewRoute.Any(true, func(f *policy.Fact) bool { return f.Presence != policy.Absent || f.Recalled || !f.AsNodes })
	return a.today(func(today *WeighedRoute) bool { return !mayServe && today.SamePlaces(a.After) })
}

// PartsFailToday is proof that nodes reject today, for their signatures, all parts of the image
// that they would reject at a place of the new route.
func (a *Case) PartsFailToday(at Place) Proof {
	return a.today(func(today *WeighedRoute) bool {
		return len(at.SignatureStates) > 0 && !IsShort(*today.Route) && !IsShort(a.After) && rejectsParts(today, at)
	})
}

func rejectsParts(today *WeighedRoute, at Place) bool {
	for _, before := range today.OpenPlaces() {
		if before.Fact.Presence == policy.Absent && !before.Fact.Recalled {
			continue
		}
		return !slices.ContainsFunc(at.SignatureStates, func(s SignatureState) bool {
			return s.Presence != policy.Present && !slices.ContainsFunc(before.SignatureStates, func(t SignatureState) bool {
				return t.Platform == s.Platform && (t.Presence == policy.Unsigned || t.Presence == policy.Missigned)
			})
		})
	}
	return false
}

// NoWorse is proof that nodes get the image on the new route if they do
// today, and from mirrors if they do so today, whatever the places that could not be asked
// would say. A source's first mirror is judged by what it holds, since it is a promise that
// was not made before.
func (a *Case) NoWorse() Proof {
	return a.today(func(today *WeighedRoute) bool {
		switch {
		case !today.HasOpenMirror() && a.NewRoute.HasOpenMirror():
			return false
		case IsShort(*today.Route) || IsShort(a.After):
			return a.keepsAll(today)
		default:
			return reaches(today.OpenPlaces(), a.NewRoute.OpenPlaces(), servesAll) && reaches(today.MirrorPlaces(), a.NewRoute.MirrorPlaces(), servesAll)
		}
	})
}

// servesAll reports whether nodes of every platform get the image there.
func servesAll(f *policy.Fact) bool { return f.Presence == policy.Present && f.IsForAll() }

// KeepsPlatforms is proof of NoWorse for nodes of every platform.
func (a *Case) KeepsPlatforms() Proof {
	return a.today(func(today *WeighedRoute) bool {
		return !IsShort(*today.Route) && !IsShort(a.After) && reaches(today.OpenPlaces(), a.NewRoute.OpenPlaces(), servesAll)
	})
}

// LacksTheSame is proof that nodes of lost, platforms for which the new route has nothing, get
// nothing today either: the old route serves a copy that is known to lack them.
func (a *Case) LacksTheSame(lost []string) Proof {
	return a.today(func(today *WeighedRoute) bool {
		before, served := a.ServedOn(today)
		return served && len(lost) > 0 && containsAll(slices.Concat(before.Missing, before.Lacks), lost)
	})
}

// ServedOn returns what nodes get on today, a route of today, and whether that is known. It is not
// where a place in front could not be asked, unless nodes will also ask that one first on the
// new route.
func (a *Case) ServedOn(today *WeighedRoute) (*policy.Fact, bool) {
	before, ok := today.Served()
	now, _ := a.NewRoute.Served()
	open := a.After.Open()
	kept := open[:max(0, slices.Index(open, now.Location))]
	moved := func(l mirrors.Location) bool { return !slices.Contains(kept, l) }
	return before.Fact, ok && !slices.ContainsFunc(today.UnverifiedFront(), moved)
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
