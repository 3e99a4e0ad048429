package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An Outcome is what comes of a pull, as far as is known. The zero value is
// Unsure.
type Outcome int

const (
	// Unsure means that nobody could tell.
	Unsure Outcome = iota
	// Works means that a node gets the manifest of the image.
	Works
	// Fails means that it does not.
	Fails
)

// Pull returns what comes of pulling img, a reference, along route. It walks the
// route as a node does: whatever an endpoint answers but the image
// moves on to the next; what looks like the image and is not, or not all of it,
// ends the pull.
func Pull(img string, route mirrors.Route, facts Facts) Outcome {
	return walk(img, route.Sources, facts, false)
}

// walk is what comes of asking sources, or only the mirrors among them. A candidate
// of a short name that has come to its end leaves the others to be tried.
func walk(img string, sources []mirrors.PullSource, facts Facts, onlyMirrors bool) Outcome {
	open, ended := false, -1 // whether an earlier place may hold the image
	for _, s := range sources {
		if !s.Tried() || s.Candidate == ended || onlyMirrors && !s.Mirror {
			continue
		}
		switch answer(img, s.Location, facts) {
		case Present:
			return Works
		case Mismatch, Incomplete:
			ended = s.Candidate
		case Absent, Denied:
		default:
			open = true
		}
	}
	if open {
		return Unsure
	}
	return Fails
}

// answer is what facts say about l, weighed: at the host that the reference
// itself names, nodes may use a pod's own pull secret, so that being denied there
// proves nothing.
func answer(img string, l mirrors.Location, facts Facts) Presence {
	p := facts[l].Presence
	if p == Denied && host(l.Ref) == host(img) {
		return Unreachable
	}
	return p
}

// weigh returns what facts say for this image: where nodes may have credentials that
// the guard does not have, it proves nothing that a place denies the guard.
func (i Impact) weigh(facts Facts) Facts {
	if !i.OtherCredentials {
		return facts
	}
	weighed := Facts{}
	for _, l := range slices.Concat(i.After.Open(), i.Before.Open()) {
		f, known := facts[l]
		if f.Presence == Denied {
			f.Presence, f.Detail = Unreachable, describe(f)+"; by CRIOCredentialProviderConfig, nodes may have other credentials"
		}
		if known {
			weighed[l] = f
		}
	}
	return weighed
}

// held reports whether one of locs has the image.
func held(locs []mirrors.Location, facts Facts) bool {
	return slices.ContainsFunc(locs, func(l mirrors.Location) bool { return facts[l].Presence == Present })
}

// host returns the registry that a reference names. For a short name, which
// names none, it returns something that is no host.
func host(ref string) string {
	h, _, _ := strings.Cut(ref, "/")
	return h
}

// Served returns the fact about the place of route that a node would take the
// image from, and whether there is one. Where that copy lacks a part, the next
// candidate of a short name may be whole.
func Served(img string, route mirrors.Route, facts Facts) (place mirrors.Location, fact Fact, ok bool) {
	ended := -1
	for _, s := range route.Sources {
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch answer(img, s.Location, facts) {
		case Present:
			f := facts[s.Location]
			if len(f.Missing) == 0 {
				return s.Location, f, true
			}
			if !ok {
				place, fact, ok = s.Location, f, true
			}
			ended = s.Candidate
		case Mismatch, Incomplete:
			ended = s.Candidate
		}
	}
	return place, fact, ok
}

// sparse reports whether the place a node would choose lacks a part of the image.
func sparse(route mirrors.Route, facts Facts) bool {
	_, fact, ok := Served("", route, facts)
	return ok && len(fact.Missing) > 0
}
