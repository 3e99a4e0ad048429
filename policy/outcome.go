package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An Outcome is the result of a pull, as far as it is known. The zero value is
// Unsure.
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
	return walk(route.Sources, evidence{facts: facts}, false)
}

// walk simulates a pull from sources, or only from the mirrors among them. When one
// candidate of a short name ends, the others are still tried.
func walk(sources []mirrors.PullSource, facts evidence, onlyMirrors bool) Outcome {
	open, ended := false, -1 // whether an earlier place may hold the image
	recalled := false        // whether one held nothing when it was last asked
	for _, s := range sources {
		if !s.Tried() || s.Candidate == ended || onlyMirrors && !s.Mirror {
			continue
		}
		switch facts.at(s.Location).Presence {
		case Present:
			if open || recalled {
				return WorksBehind
			}
			return Works
		case Mismatch, Incomplete:
			ended = s.Candidate
		case Absent:
			recalled = recalled || facts.at(s.Location).Recalled
		case Denied:
		default:
			open = true
		}
	}
	if open {
		return Unsure
	}
	return Fails
}

// held reports whether one of locs has the image.
func held(locs []mirrors.Location, facts evidence) bool {
	return slices.ContainsFunc(locs, func(l mirrors.Location) bool { return facts.at(l).Presence == Present })
}

// Served returns the place of route from which a node would take the image, by the facts as
// they stand, with the fact about it, and whether there is one.
func Served(route mirrors.Route, facts Facts) (place mirrors.Location, fact Fact, ok bool) {
	return served(route, evidence{facts: facts})
}

// served is Served by what facts prove. Where that copy lacks a part, the next candidate of
// a short name may be whole.
func served(route mirrors.Route, facts evidence) (place mirrors.Location, fact Fact, ok bool) {
	ended := -1
	for _, s := range route.Sources {
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch f := facts.at(s.Location); f.Presence {
		case Present:
			if f.isWhole() {
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

// unverifiedFront returns the places of route that a node asks before the first that has
// the image, and that could not be asked here.
func unverifiedFront(route mirrors.Route, facts evidence) []mirrors.Location {
	var front []mirrors.Location
	ended := -1
	for _, s := range route.Sources {
		if !s.Tried() || s.Candidate == ended {
			continue
		}
		switch f := facts.at(s.Location); f.Presence {
		case Present:
			return front
		case Absent:
			if f.Recalled {
				front = append(front, s.Location)
			}
		case Mismatch, Incomplete:
			ended = s.Candidate
		case Unknown, Unreachable:
			front = append(front, s.Location)
		}
	}
	return nil
}
