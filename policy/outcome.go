package policy

import (
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
// Reroute.weigh for what they prove about an image. It walks the route as a node does: any
// answer other than the image makes the node try the next place; an answer that looks like
// the image but is something else, or incomplete, ends the pull.
func Pull(route mirrors.Route, facts Facts) Outcome {
	return weighedRoute{Route: &route, facts: facts.on(&route)}.pull(false)
}

// Served returns the place of route from which a node would take the image, by the facts as
// they stand, with the fact about it, and whether there is one.
func Served(route mirrors.Route, facts Facts) (place mirrors.Location, fact *Fact, ok bool) {
	at, ok := weighedRoute{Route: &route, facts: facts.on(&route)}.served()
	return at.Location, at.fact, ok
}

// A weighedRoute is a route with what facts prove about each of its sources.
type weighedRoute struct {
	*mirrors.Route
	facts []*Fact // in the order of the sources; none is nil
	// signatures are the states of those of each instance of the image at a source, by its index;
	// nothing where nodes look for none, or stop before.
	signatures map[int][]signatureState
}

// A place is one that a node asks on a route, with the proven fact about it.
type place struct {
	*mirrors.PullSource
	fact       *Fact
	signatures []signatureState
}

func (r weighedRoute) place(k int) place { return place{&r.Sources[k], r.facts[k], r.signatures[k]} }

// open returns the places that a node asks, mirrors the mirrors among them, in order.
func (r weighedRoute) open() []place    { return r.places(false) }
func (r weighedRoute) mirrors() []place { return r.places(true) }

func (r weighedRoute) places(onlyMirrors bool) []place {
	var places []place
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) {
			places = append(places, r.place(k))
		}
	}
	return places
}

// any reports whether there is a place that a node asks about which ok holds, or a mirror.
func (r weighedRoute) any(onlyMirrors bool, ok func(*Fact) bool) bool {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) && ok(r.facts[k]) {
			return true
		}
	}
	return false
}

// isOpen reports whether a node asks anywhere.
func (r weighedRoute) isOpen() bool {
	return r.any(false, func(*Fact) bool { return true })
}

// hasOpenMirror reports whether a node asks a mirror.
func (r weighedRoute) hasOpenMirror() bool {
	return r.any(true, func(*Fact) bool { return true })
}

// isAtMirror reports whether a mirror that a node asks has the image.
func (r weighedRoute) isAtMirror() bool {
	return r.any(true, func(f *Fact) bool { return f.Presence == Present })
}

// pull simulates a pull from all places, or only from mirrors. When one candidate of a short
// name ends, the others are still tried.
func (r weighedRoute) pull(onlyMirrors bool) Outcome {
	open, ended := false, -1 // whether an earlier place may hold the image
	recalled := false        // whether one held nothing when it was last asked
	unsure := false          // whether nodes may get it where they stop
	other := false           // whether one candidate of a short name was something else
	for k := range r.Sources {
		s := &r.Sources[k]
		if !s.Tried() || s.Candidate == ended || onlyMirrors && !s.Mirror {
			continue
		}
		switch f := r.facts[k]; f.Presence {
		case Present:
			if open || recalled || unsure || other { // the last two: of a short name, an earlier candidate
				return WorksBehind
			}
			return Works
		case Inconclusive:
			unsure, ended = true, s.Candidate
		case Absent:
			recalled = recalled || f.Recalled
		case Denied:
		default:
			if f.Presence.endsPull() {
				ended, other = s.Candidate, other || f.Presence == Mismatch
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

// served returns the place from which a node would take the image, and whether there is one;
// if there is none, the fact about it is that nothing was asked. Where that copy lacks a
// part, the next candidate of a short name may be whole.
func (r weighedRoute) served() (at place, ok bool) {
	at = place{&mirrors.PullSource{}, &notAsked, nil}
	ended := -1
	for k := range r.Sources {
		s := &r.Sources[k]
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch f := r.facts[k]; f.Presence {
		case Present:
			if f.isWhole() {
				return r.place(k), true
			}
			if !ok {
				at, ok = r.place(k), true
			}
			ended = s.Candidate
		default:
			if f.Presence.endsPull() {
				ended = s.Candidate
			}
		}
	}
	return at, ok
}

// unverifiedFront returns the places that a node asks before the first that has the image,
// and that could not be asked here.
func (r weighedRoute) unverifiedFront() []mirrors.Location {
	var front []mirrors.Location
	ended := -1
	for k := range r.Sources {
		s := &r.Sources[k]
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch f := r.facts[k]; f.Presence {
		case Present:
			return front
		case Absent:
			if f.Recalled {
				front = append(front, s.Location)
			}
		case Unknown, Unreachable:
			front = append(front, s.Location)
		case Inconclusive:
			front, ended = append(front, s.Location), s.Candidate
		case Mismatch: // when the page in its place is gone, the image of that name may be another
			front, ended = append(front, s.Location), s.Candidate
		default:
			if f.Presence.endsPull() {
				ended = s.Candidate
			}
		}
	}
	return nil
}

// A signatureState is the state of the signatures of one instance of an image at a place.
type signatureState struct {
	Instance
	// at is where they are looked up.
	at mirrors.Location
	// presence is Present if nodes go on, and otherwise Inconclusive, Unsigned, Missigned or
	// SignaturesDenied.
	presence Presence
	// judgement is that on the signatures found, if any are required.
	judgement signing.Judgement
	// why says what was found, where nodes do not go on, or may not.
	why string
	// unreadable is set if there is something else where signatures should be, awaited if there was no
	// time to look them up.
	unreadable, awaited bool
}
