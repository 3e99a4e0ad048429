package evidence

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// reaches reports whether nodes that ask the places in now get the image in every case in
// which they get it today from those in before. A place that may have it is reached in now if
// nothing in front of it may end the pull: only places that have the image, that make nodes
// move on, or that nodes pass today on their way there.
func reaches(before, now []Place, has func(*policy.Fact) bool) bool {
	var passed []mirrors.Location
	for _, at := range before {
		f := at.Fact
		switch {
		case f.Presence == policy.Absent && !f.Recalled:
			continue
		case f.Presence == policy.Unsigned, f.Presence == policy.Missigned:
			return true // today no node comes any further
		case !gets(at, passed, now, has):
			return false
		case f.Presence == policy.Present:
			return true
		}
		passed = append(passed, at.Location)
	}
	return true
}

// gets reports whether nodes that ask the places in now get the image if from serves it and
// the places they passed do not have it. The same place has to be asked for no more than today.
func gets(from Place, passed []mirrors.Location, now []Place, has func(*policy.Fact) bool) bool {
	for _, next := range now {
		f := next.Fact
		switch {
		case next.Location == from.Location && next.AsksNoMore(*from.PullSource), has(f):
			return true
		case slices.Contains(passed, next.Location):
		case !sendsOn(f):
			return false
		}
	}
	return false
}

// servesAll reports whether nodes of every platform get the image there.
func servesAll(f *policy.Fact) bool { return f.Presence == policy.Present && f.IsForAll() }

// sendsOn reports whether nodes that ask a place go on to the next. By now, it may have what it lacked a minute ago.
func sendsOn(f *policy.Fact) bool {
	return f.Presence == policy.Denied || f.Presence == policy.Absent && !f.Recalled
}

// keepsAll is NoWorse for short names, where what ends the pull of one candidate does not
// end that of the next: nodes ask every place that they ask today, in the same order, those of two candidates still as such, and
// any other place that they ask before the last of those is known to have the image for all of them, or to
// make them move on.
func keepsAll(today, now *WeighedRoute) bool {
	kept, passed, reached := today.OpenPlaces(), -1, -1 // and the candidates of the last one, today and now
	for _, at := range now.OpenPlaces() {
		if len(kept) == 0 {
			return true
		}
		if at.Location == kept[0].Location && at.AsksNoMore(*kept[0].PullSource) {
			if passed != kept[0].Candidate && reached == at.Candidate {
				return false
			}
			passed, reached, kept = kept[0].Candidate, at.Candidate, kept[1:]
			continue
		}
		if !servesAll(at.Fact) && !sendsOn(at.Fact) {
			return false
		}
	}
	return len(kept) == 0
}
