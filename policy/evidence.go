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
	e := evidence{facts: facts}
	for _, route := range []*mirrors.Route{&r.After, &r.Before} {
		for k := range route.Sources {
			l := route.Sources[k].Location
			f, known := facts[l]
			wanted := known && r.wantsPlatforms(l, f)
			if !known || f.Presence == Present && !wanted {
				continue
			}
			if wanted {
				answer, asked := facts[deeper(l)]
				if f = answer; !asked {
					f.Detail = "found; its platforms were not looked up in time"
				}
			}
			e.refused = e.refused || f.Presence == Denied || f.Presence == Absent || f.Recalled
			if proved, differs := r.prove(f, l, sourceHost(route, k), facts, before); differs || wanted {
				e.set(l, proved)
			}
		}
	}
	return e
}

// evidence holds what facts prove about one image: what they say, but for a few places.
type evidence struct {
	facts  Facts
	differ []proof
	// refused is set if a place refuses the image, or did when it was last asked. If none
	// does, facts prove the same of both routes.
	refused bool
}

type proof struct {
	at   mirrors.Location
	fact Fact
}

func (e evidence) at(l mirrors.Location) Fact {
	for i := range e.differ {
		if e.differ[i].at == l {
			return e.differ[i].fact
		}
	}
	return e.facts[l]
}

func (e *evidence) set(l mirrors.Location, f Fact) {
	for i := range e.differ {
		if e.differ[i].at == l {
			e.differ[i].fact = f
			return
		}
	}
	e.differ = append(e.differ, proof{l, f})
}

// prove returns what f, the fact about l, proves, and whether that differs from f.
// Source is the host that the reference names.
func (r *Reroute) prove(f Fact, l mirrors.Location, source string, facts Facts, before bool) (Fact, bool) {
	atSource := host(l.Ref) == source
	switch {
	case f.Presence == Denied && (atSource || before || r.OtherCredentials),
		f.Presence == Absent && (atSource || before && r.OtherCredentials) && r.doubt() != "":
		return r.unproven(f), true
	case before && f.Recalled && !r.stillReaches(l, facts):
		f.Presence = Unreachable
		return f, true
	default:
		return f, false
	}
}

// stillReaches reports whether nodes get as far as l on the new route as well, because all
// places before it refuse.
func (r *Reroute) stillReaches(l mirrors.Location, facts Facts) bool {
	for _, s := range r.After.Sources {
		switch p := facts[s.Location].Presence; {
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
func (r *Reroute) unproven(f Fact) Fact {
	f.Detail = describe(f)
	if why := r.doubt(); why != "" {
		f.Detail += "; " + why
	}
	f.Presence = Unreachable
	return f
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
