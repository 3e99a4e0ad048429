package evidence

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// An Outcome is the result of a pull, by the known facts. The zero value is Unsure.
type Outcome int

const (
	// Unsure means that it could not be determined.
	Unsure Outcome = iota
	// Works means that a node gets the manifest of the image.
	Works
	// WorksBehind means that a place has the image, and that one before it could not be
	// asked. A node gets the image as long as that place does not answer. When it comes
	// back with something else, a login page or another image, nodes stop there.
	WorksBehind
	// Fails means that a node does not get it.
	Fails
)

// Found reports whether a place that is reached has the image.
func (o Outcome) Found() bool { return o == Works || o == WorksBehind }

// Pull returns the outcome of a pull along route by the facts as they stand; see
// Reroute.Weigh for what they prove about an image. It walks the route as a node does: any
// answer other than the image makes the node try the next place; an answer that looks like
// the image but is something else, or incomplete, ends the pull.
func Pull(route mirrors.Route, facts policy.Facts) Outcome {
	return WeighedRoute{Route: &route, Facts: facts.On(&route)}.Pull(false)
}

// Served returns the place of route from which a node would take the image, by the facts as
// they stand, with the fact about it, and whether there is one.
func Served(route mirrors.Route, facts policy.Facts) (place mirrors.Location, fact *policy.Fact, ok bool) {
	at, ok := WeighedRoute{Route: &route, Facts: facts.On(&route)}.Served()
	return at.Location, at.Fact, ok
}

// A WeighedRoute is a route with what facts prove about each of its sources.
type WeighedRoute struct {
	*mirrors.Route
	Facts []*policy.Fact // in the order of the sources; none is nil
	// signatures are the states of those of each instance of the image at a source, by its index;
	// nothing where nodes look for none, or stop before.
	signatures map[int][]SignatureState
}

// A Place is one that a node asks on a route, with the proven fact about it.
type Place struct {
	*mirrors.PullSource
	Fact            *policy.Fact
	SignatureStates []SignatureState
}

func (r WeighedRoute) place(k int) Place { return Place{&r.Sources[k], r.Facts[k], r.signatures[k]} }

// OpenPlaces returns the places that a node asks, mirrors the mirrors among them, in order.
func (r WeighedRoute) OpenPlaces() []Place { return r.places(false) }

// MirrorPlaces returns the mirrors among OpenPlaces, in order.
func (r WeighedRoute) MirrorPlaces() []Place { return r.places(true) }

func (r WeighedRoute) places(onlyMirrors bool) []Place {
	var places []Place
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) {
			places = append(places, r.place(k))
		}
	}
	return places
}

// Any reports whether there is a place that a node asks about which ok holds, or a mirror.
func (r WeighedRoute) Any(onlyMirrors bool, ok func(*policy.Fact) bool) bool {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) && ok(r.Facts[k]) {
			return true
		}
	}
	return false
}

// IsOpen reports whether a node asks anywhere.
func (r WeighedRoute) IsOpen() bool {
	return r.Any(false, func(*policy.Fact) bool { return true })
}

// HasOpenMirror reports whether a node asks a mirror.
func (r WeighedRoute) HasOpenMirror() bool {
	return r.Any(true, func(*policy.Fact) bool { return true })
}

// IsAtMirror reports whether a mirror that a node asks has the image.
func (r WeighedRoute) IsAtMirror() bool {
	return r.Any(true, func(f *policy.Fact) bool { return f.Presence == policy.Present })
}

// Pull simulates a pull from all places, or only from mirrors. When one candidate of a short
// name ends, the others are still tried.
func (r WeighedRoute) Pull(onlyMirrors bool) Outcome {
	open, ended := false, -1 // whether an earlier place may hold the image
	recalled := false        // whether one held nothing when it was last asked
	unsure := false          // whether nodes may get it where they stop
	other := false           // whether one candidate of a short name was something else
	for k := range r.Sources {
		s := &r.Sources[k]
		if !s.Tried() || s.Candidate == ended || onlyMirrors && !s.Mirror {
			continue
		}
		switch f := r.Facts[k]; f.Presence {
		case policy.Present:
			if open || recalled || unsure || other { // the last two: of a short name, an earlier candidate
				return WorksBehind
			}
			return Works
		case policy.Inconclusive:
			unsure, ended = true, s.Candidate
		case policy.Absent:
			recalled = recalled || f.Recalled
		case policy.Denied:
		default:
			if f.Presence.EndsPull() {
				ended, other = s.Candidate, other || f.Presence == policy.Mismatch
			} else {
				open = true
			}
		}
	}
	if open || unsure {
		return Unsure
	}
	return Fails
}

// Served returns the place from which nodes would take the image, and whether there is one;
// if there is none, the fact about it is that nothing was asked. Where that copy lacks a
// part, the next candidate of a short name may be whole.
func (r WeighedRoute) Served() (Place, bool) {
	first, ok := r.ServedFirst()
	if ok && first.Fact.IsSparse() {
		for at := range r.met {
			if at.Fact.Presence == policy.Present && at.Fact.IsWhole() {
				return at, true
			}
		}
	}
	return first, ok
}

// Serves returns the platforms of nodes that get the image anywhere, and whether there may be no others: by a place that nodes
// come to behind the first copy.
func (r WeighedRoute) Serves() (platforms []string, known bool) {
	known = true
	served := false
	for at := range r.met {
		switch f := at.Fact; {
		case f.Presence == policy.Present && (f.Serves != nil || f.Lacks != nil):
			platforms, served = append(platforms, f.Serves...), true
		case served && (f.Presence != policy.Absent || f.Recalled):
			known = false
		}
	}
	slices.Sort(platforms)
	return slices.Compact(platforms), known
}

// ServedFirst is Served for the nodes that take the first copy of all.
func (r WeighedRoute) ServedFirst() (Place, bool) {
	for at := range r.met {
		if at.Fact.Presence == policy.Present {
			return at, true
		}
	}
	return Place{&mirrors.PullSource{}, &policy.NotAsked, nil}, false
}

// met yields the places that nodes come to, in order: those that they ask, but for what is behind the end of a candidate, or behind
// a copy that all take.
func (r WeighedRoute) met(yield func(Place) bool) {
	ended := -1
	for k := range r.Sources {
		s, f := &r.Sources[k], r.Facts[k]
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		if !yield(r.place(k)) || f.Presence == policy.Present && !f.IsSparse() {
			return
		}
		if f.Presence.EndsPull() {
			ended = s.Candidate
		}
	}
}

// UnverifiedFront returns the places that a node asks before the first that has the image,
// and that could not be asked here.
func (r WeighedRoute) UnverifiedFront() []mirrors.Location {
	var front []mirrors.Location
	ended := -1
	for k := range r.Sources {
		s := &r.Sources[k]
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch f := r.Facts[k]; f.Presence {
		case policy.Present:
			return front
		case policy.Absent:
			if f.Recalled {
				front = append(front, s.Location)
			}
		case policy.Unknown, policy.Unreachable:
			front = append(front, s.Location)
		case policy.Inconclusive:
			front, ended = append(front, s.Location), s.Candidate
		case policy.Mismatch: // when the page in its place is gone, the image of that name may be another
			front, ended = append(front, s.Location), s.Candidate
		default:
			if f.Presence.EndsPull() {
				ended = s.Candidate
			}
		}
	}
	return nil
}

// A SignatureState is the state of the signatures of one instance of an image at a place.
type SignatureState struct {
	policy.Instance
	// At is where they are looked up.
	At mirrors.Location
	// Presence is Present if nodes go on, and otherwise Inconclusive, Unsigned, Missigned or
	// SignaturesDenied.
	Presence policy.Presence
	// Judgement is that on the signatures found, if any are required.
	Judgement signing.Judgement
	// Why says what was found, where nodes do not go on, or may not.
	Why string
	// Unreadable is set if there is something else where signatures should be, awaited where there was no
	// time to look them up.
	Unreadable, awaited bool
}
