package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An outcome is what comes of a pull, as far as is known.
type outcome int

const (
	unsure outcome = iota
	works
	fails
)

// pull walks route as a node does: whatever an endpoint answers but the image
// moves on to the next; what looks like the image and is not ends the pull.
func pull(img string, route mirrors.Route, facts Facts) outcome {
	if route.Err != nil {
		return fails
	}
	return walk(img, route.Open(), facts)
}

func walk(img string, locs []mirrors.Location, facts Facts) outcome {
	open := false // whether an earlier place may hold the image
	for _, l := range locs {
		switch answer(img, l, facts) {
		case Present:
			return works
		case Mismatch:
			if open {
				return unsure
			}
			return fails
		case Absent, Denied:
		default:
			open = true
		}
	}
	if open {
		return unsure
	}
	return fails
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
