package policy

import (
	"cmp"
	"slices"
	"strings"

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

// weighAfter returns what facts prove about the places of the new route.
func (r *Reroute) weighAfter(facts Facts) weighedRoute { return r.weigh(&r.After, facts, false) }

// weighBefore returns what facts prove about the places of the old route.
func (r *Reroute) weighBefore(facts Facts) weighedRoute { return r.weigh(&r.Before, facts, true) }

func (r *Reroute) weigh(route *mirrors.Route, facts Facts, before bool) weighedRoute {
	weighed := weighedRoute{Route: route, facts: facts.on(route)}
	for k, found := range weighed.facts {
		f := r.counted(&route.Sources[k], found, facts)
		if f == &notAsked {
			continue
		}
		step := step{r, route, k, before}
		proved, signatures := step.prove(f, facts), route.Sources[k].WantsSignatures()
		if proved.Presence == Present {
			proved = r.forItsNodes(proved, signatures)
		}
		if proved.Presence == Present && signatures {
			var states []signatureState
			if proved, states = step.withSignatures(proved, facts); len(states) > 0 {
				if weighed.signatures == nil {
					weighed.signatures = map[int][]signatureState{}
				}
				weighed.signatures[k] = states
			}
		}
		weighed.facts[k] = proved
	}
	return weighed
}

// A step is one place of an image's old or new route; k is its position.
type step struct {
	*Reroute
	route  *mirrors.Route
	k      int
	before bool
}

func (s step) source() *mirrors.PullSource { return &s.route.Sources[s.k] }

// prove returns what f, a fact about the place, proves: f itself, unless that differs from what
// it says.
func (s step) prove(f *Fact, facts Facts) *Fact {
	if s.before {
		return s.proveBefore(f, facts)
	}
	return s.proveAfter(f)
}

// counted returns what counts about s instead of f, the fact about it: where more of its manifest is
// wanted, the fact about that.
func (r *Reroute) counted(s *mirrors.PullSource, f *Fact, facts Facts) *Fact {
	if !r.wantsManifest(s, f) {
		return f
	}
	if answer, asked := facts[deeper(s.Location)]; asked {
		return answer
	}
	if r.wantsPlatforms(s.Location, f) {
		return &platformsNotAsked
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
func (s step) proveAfter(f *Fact) *Fact {
	switch {
	case f.Presence != Denied && f.Presence != Absent, f.Assumed != "":
		return f
	case !f.AsNodes,
		f.Presence == Denied && (s.isAtSource() || s.OtherCredentials || s.Puller != mirrors.Nodes),
		f.Presence == Absent && s.isAtSource() && s.doubt() != "":
		return s.unproven(f)
	default:
		return f
	}
}

// proveBefore is prove for the old route, where a failure would weaken a denial.
//
// A miss that is only Recalled proves nothing, unless the new route asks that place too, and
// asks none before it that may end the pull: if the place has the image by now, both routes do.
func (s step) proveBefore(f *Fact, facts Facts) *Fact {
	switch {
	case f.Presence == Present, f.Presence == Unknown, f.Presence == Unreachable:
		return f
	case f.Presence != Absent, !f.AsNodes,
		s.doubt() != "" && (s.OtherCredentials || s.isAtSource()),
		f.Recalled && !s.stillReaches(s.source().Location, facts):
		return s.unproven(f)
	default:
		return f
	}
}

// stillReaches reports whether nodes reach l on the new route as well, because all places before it
// refuse.
func (r *Reroute) stillReaches(l mirrors.Location, facts Facts) bool {
	for _, s := range r.After.Sources {
		switch p := facts.At(s.Location).Presence; {
		case !s.Tried():
		case s.Location == l:
			return true
		case p != Absent && p != Denied:
			return false
		}
	}
	return false
}

// unproven returns f as no answer. A fact that ends a pull still does, whether or not nodes get the image.
func (r *Reroute) unproven(f *Fact) *Fact {
	unsure := *f
	unsure.Detail = describe(f)
	if refused := f.Presence == Absent || f.Presence == Denied; refused && !f.AsNodes {
		unsure.Detail += "; " + askedOtherwise
	} else if why := cmp.Or(r.doubt(), r.secretsOfNamespace()); why != "" {
		unsure.Detail += "; " + why
	}
	if unsure.Presence = Unreachable; f.Presence.endsPull() {
		unsure.Presence = Inconclusive
	}
	return &unsure
}

// askedOtherwise says why a refusal proves nothing where Fact.AsNodes is not set.
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
		case c.Use == History, c.OwnPullSecret && r.neverRanIn(c.Namespace):
		case c.PullSecretUnknown:
			return "nodes may have a pull secret of " + c.String() + ", whose service account is not known"
		case c.OwnPullSecret:
			return "nodes may have a pull secret of " + c.String()
		case c.Use == Running && digest != "" && c.Digest == digest:
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
	return !r.protected && r.site != nil && r.site.podsListed(namespace) && !slices.ContainsFunc(r.Image.Consumers, func(c Consumer) bool {
		return c.Kind == "Pod" && c.Namespace == namespace && !c.NeverRan
	})
}

// isAtSource reports whether the place is at the host that its candidate names: that of the
// source that is not a mirror. References on a route are normalised, so that each registry has
// one name.
func (s step) isAtSource() bool {
	at := s.source()
	for _, other := range s.route.Sources[s.k:] { // containers/image puts the source last
		if !other.Mirror && other.Candidate == at.Candidate {
			return other.Host() == at.Host()
		}
	}
	return false
}

// A proof is evidence by which a denial becomes a warning. The zero value proves nothing. Only
// the methods below make others.
type proof struct{ holds bool }

// denyUnless returns Deny, or Warn where one of proofs holds.
func denyUnless(proofs ...proof) Severity {
	for _, p := range proofs {
		if p.holds {
			return Warn
		}
	}
	return Deny
}

// failsToday is proof that nodes do not get the image today. Where the old route is not known, all
// routes by the objects in force or by none, and the new one, have to fail: the image is dead
// everywhere. That proves nothing for a protected or running image: nodes may have a mirror that no
// object names any more.
func (a *assessment) failsToday() proof {
	fails := func(today *weighedRoute) bool { return today.pull(false) == Fails } // which is proved
	if !a.BeforeUnknown {
		return a.today(fails)
	}
	return proof{!a.protected && len(a.running()) == 0 && a.after == Fails && len(a.rarely().maybe) > 0 && !slices.ContainsFunc(a.otherRoutes(), func(route *mirrors.Route) bool {
		maybe := a.weigh(route, a.found, true)
		return !fails(&maybe)
	})}
}

// mirrorsFailToday is proof that the mirrors of the old route do not serve the image, although
// it has some and nodes may contact its source.
func (a *assessment) mirrorsFailToday() proof {
	return a.today(func(today *weighedRoute) bool {
		return today.hasOpenMirror() && today.pull(true) == Fails && !today.SourceBlocked()
	})
}

// keepsPlaces is proof that nodes ask the same places as today, in the same way: the change is about
// requirements, and no promise that mirrors have the image. They must be known to lack it: one that
// denies, or sends a page, may serve it in a minute, and then its signatures count.
func (a *assessment) keepsPlaces() proof {
	mayServe := a.newRoute.any(true, func(f *Fact) bool { return f.Presence != Absent || f.Recalled || !f.AsNodes })
	return a.today(func(today *weighedRoute) bool { return !mayServe && today.SamePlaces(a.After) })
}

// partsFailToday is proof that nodes reject today, for their signatures, all parts of the image
// that they would reject at a place of the new route.
func (a *assessment) partsFailToday(at place) proof {
	return a.today(func(today *weighedRoute) bool {
		return len(at.signatures) > 0 && !isShort(*today.Route) && !isShort(a.After) && rejectsParts(today, at)
	})
}

func rejectsParts(today *weighedRoute, at place) bool {
	for _, before := range today.open() {
		if before.fact.Presence == Absent && !before.fact.Recalled {
			continue
		}
		return !slices.ContainsFunc(at.signatures, func(s signatureState) bool {
			return s.presence != Present && !slices.ContainsFunc(before.signatures, func(t signatureState) bool {
				return t.Platform == s.Platform && (t.presence == Unsigned || t.presence == Missigned)
			})
		})
	}
	return false
}

// noWorse is proof that nodes get the image on the new route if they do
// today, and from mirrors if they do so today, whatever the places that could not be asked
// would say. A source's first mirror is judged by what it holds, since it is a promise that
// was not made before.
func (a *assessment) noWorse() proof {
	return a.today(func(today *weighedRoute) bool {
		switch {
		case !today.hasOpenMirror() && a.newRoute.hasOpenMirror():
			return false
		case isShort(*today.Route) || isShort(a.After):
			return a.keepsAll(today)
		default:
			return reaches(today.open(), a.newRoute.open(), servesAll) && reaches(today.mirrors(), a.newRoute.mirrors(), servesAll)
		}
	})
}

// servesAll reports whether nodes of every platform get the image there.
func servesAll(f *Fact) bool { return f.Presence == Present && f.isForAll() }

// keepsPlatforms is proof of noWorse for nodes of every platform.
func (a *assessment) keepsPlatforms() proof {
	return a.today(func(today *weighedRoute) bool {
		return !isShort(*today.Route) && !isShort(a.After) && reaches(today.open(), a.newRoute.open(), servesAll)
	})
}

// lacksTheSame is proof that nodes of lost, platforms for which the new route has nothing, get
// nothing today either: the old route serves a copy that is known to lack them.
func (a *assessment) lacksTheSame(lost []string) proof {
	return a.today(func(today *weighedRoute) bool {
		before, served := a.servedOn(today)
		return served && len(lost) > 0 && containsAll(slices.Concat(before.Missing, before.Lacks), lost)
	})
}

// servedOn returns what nodes get on today, a route of today, and whether that is known. It is not
// where a place in front could not be asked, unless nodes will also ask that one first on the
// new route.
func (a *assessment) servedOn(today *weighedRoute) (*Fact, bool) {
	before, ok := today.served()
	now, _ := a.newRoute.served()
	open := a.After.Open()
	kept := open[:max(0, slices.Index(open, now.Location))]
	moved := func(l mirrors.Location) bool { return !slices.Contains(kept, l) }
	return before.fact, ok && !slices.ContainsFunc(today.unverifiedFront(), moved)
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
