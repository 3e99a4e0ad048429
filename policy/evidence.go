package policy

import (
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// weigh returns what facts prove about the image of r. A fact is what a registry told the
// guard, which has the nodes' global pull secret and no other credentials. Where nodes may
// have more credentials, a refusal proves nothing, and counts as no answer:
//
//   - At the host that the reference names, nodes use the pull secrets of pods (semantics
//     §4). 401 and 403 prove nothing there. Nor does 404 where a consumer of the image may have
//     such a secret, or runs this very digest: registries hide private repositories.
//   - Where CRI-O's credential provider may find credentials in a pod's namespace, 401 and
//     403 prove nothing at any place.
//
// With before set, facts are weighed for the old route, whose failure would weaken a
// denial. There, a place that denies the guard access does not prove a failure: it may let
// nodes in.
//
// Nor does a miss that is only Recalled, unless the new route asks that place too, and asks
// none before it that may end the pull: if the place has the image by now, both routes do.
//
// Where the platforms of an image are wanted, the fact about those counts instead.
func (r *Reroute) weigh(facts Facts, before bool) evidence {
	both := make([]*Fact, len(r.After.Sources)+len(r.Before.Sources))
	e := evidence{
		after:  weighedRoute{&r.After, both[:len(r.After.Sources)]},
		before: weighedRoute{&r.Before, both[len(r.After.Sources):]},
	}
	var replaced []proof
	for _, route := range [...]weighedRoute{e.after, e.before} {
		facts.enter(route.facts, route.Route)
		for k, found := range route.facts {
			l := &route.Sources[k].Location
			f, wanted := r.counted(*l, found, facts)
			if f == &notAsked || f.Presence == Present && !wanted {
				continue
			}
			e.refused = e.refused || f.Presence == Denied || f.Presence == Absent || f.Recalled
			if proved := r.prove(f, *l, route.Route, k, facts, before); proved != f || wanted {
				replaced = append(replaced, proof{l, proved})
			}
		}
	}
	for _, p := range replaced { // where a place is on both routes, the last proof counts
		p.enter(e.after)
		p.enter(e.before)
	}
	return e
}

// counted returns what counts about l instead of f, the fact about it, and whether that is
// what is known of its platforms.
func (r *Reroute) counted(l mirrors.Location, f *Fact, facts Facts) (*Fact, bool) {
	if !r.wantsPlatforms(l, f) {
		return f, false
	}
	if answer, asked := facts[deeper(l)]; asked {
		return answer, true
	}
	return &platformsNotAsked, true
}

// evidence holds what facts prove about one image.
type evidence struct {
	after, before weighedRoute
	// refused is set if a place refuses the image, or did when it was last asked. If none
	// does, facts prove the same of both routes.
	refused bool
}

// A proof is what counts about a place instead of the fact about it.
type proof struct {
	at   *mirrors.Location
	fact *Fact
}

// enter replaces the fact about the place of p, wherever it is on route.
func (p proof) enter(route weighedRoute) {
	for k := range route.Sources {
		if route.Sources[k].Location == *p.at {
			route.facts[k] = p.fact
		}
	}
}

// prove returns what f, the fact about l, which is the place of the k-th source of route,
// proves: f itself, unless that differs from what it says.
func (r *Reroute) prove(f *Fact, l mirrors.Location, route *mirrors.Route, k int, facts Facts, before bool) *Fact {
	if f.Presence != Denied && f.Presence != Absent && !f.Recalled {
		return f
	}
	atSource := host(l.Ref) == sourceHost(route, k)
	switch {
	case f.Presence == Denied && (atSource || before || r.OtherCredentials),
		f.Presence == Absent && (atSource || before && r.OtherCredentials) && r.doubt() != "":
		return r.unproven(f)
	case before && f.Recalled && !r.stillReaches(l, facts):
		unsure := *f
		unsure.Presence = Unreachable
		return &unsure
	default:
		return f
	}
}

// stillReaches reports whether nodes get as far as l on the new route as well, because all
// places before it refuse.
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

// unproven returns f, a refusal, as no answer.
func (r *Reroute) unproven(f *Fact) *Fact {
	unsure := *f
	unsure.Detail = describe(f)
	if why := r.doubt(); why != "" {
		unsure.Detail += "; " + why
	}
	unsure.Presence = Unreachable
	return &unsure
}

// doubt says why nodes may get an image that a registry refuses to the guard, or says it
// does not have; "" if nodes would be told the same.
func (r *Reroute) doubt() string {
	if r.OtherCredentials {
		return "by CRIOCredentialProviderConfig, nodes may have other credentials"
	}
	_, digest, _ := strings.Cut(r.Image.Ref, "@")
	for _, c := range r.Image.Consumers {
		switch {
		case c.Use == History:
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

// sourceHost returns the host that the candidate of the k-th source of r names: the host of
// the place that is not a mirror. References on a route are normalised, so that each
// registry has one name.
func sourceHost(r *mirrors.Route, k int) string {
	for _, s := range r.Sources[k:] { // containers/image puts the source last
		if !s.Mirror && s.Candidate == r.Sources[k].Candidate {
			return host(s.Ref)
		}
	}
	return ""
}
