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
// moves on to the next; what looks like the image and is not ends the pull.
func Pull(img string, route mirrors.Route, facts Facts) Outcome {
	return pull(img, route, route.Open(), facts)
}

// pull is Pull for who has the open places of route already.
func pull(img string, route mirrors.Route, open []mirrors.Location, facts Facts) Outcome {
	if route.Err != nil || route.Refused != "" {
		return Fails
	}
	return walk(img, open, facts)
}

func walk(img string, locs []mirrors.Location, facts Facts) Outcome {
	open := false // whether an earlier place may hold the image
	for _, l := range locs {
		switch answer(img, l, facts) {
		case Present:
			return Works
		case Mismatch:
			if open {
				return Unsure
			}
			return Fails
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

// served returns the fact about the place of route that a node would take the
// image from, and whether there is one.
func served(img string, route mirrors.Route, facts Facts) (mirrors.Location, Fact, bool) {
	for _, l := range route.Open() {
		switch answer(img, l, facts) {
		case Present:
			return l, facts[l], true
		case Mismatch:
			return l, Fact{}, false
		}
	}
	return mirrors.Location{}, Fact{}, false
}

// sparse reports whether the place a node would choose lacks a part of the image.
func sparse(route mirrors.Route, facts Facts) bool {
	_, fact, ok := served("", route, facts)
	return ok && len(fact.Missing) > 0
}
