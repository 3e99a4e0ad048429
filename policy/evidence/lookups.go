package evidence

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Lookups collects locations about which nothing is known.
type Lookups struct {
	Facts policy.Facts
	asked map[mirrors.Location]struct{}
	List  []mirrors.Location
	Most  int // a guess at how many it will be, once there is one
	Open  int // how often a location was named again
}

func (q *Lookups) ask(l mirrors.Location) {
	if _, known := q.Facts[l]; known {
		return
	}
	if q.asked == nil {
		q.asked = make(map[mirrors.Location]struct{}, q.Most)
		q.List = make([]mirrors.Location, 0, q.Most)
	}
	if _, asked := q.asked[l]; asked {
		q.Open++
		return
	}
	q.asked[l] = struct{}{}
	q.List = append(q.List, l)
}

// AskOn adds the places that nodes ask on a route, or only the mirrors.
func (q *Lookups) AskOn(r *mirrors.Route, onlyMirrors bool) {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) {
			q.ask(s.Location)
		}
	}
}

// AskAfterMirrors adds the further lookups of r once its mirrors have answered: the platforms of a tag,
// and the signatures that nodes look for; the other places, old ones included, where no mirror is
// certain to serve the image; the platforms that the old place serves, where the new one lacks
// some; and the old places, where what nodes get today counts, as for a place shared with other images that has another than the one that runs.
func (q *Lookups) AskAfterMirrors(r *Reroute) {
	s, f := r.firstAnswer(q.Facts)
	if meets := len(r.Rarely().Meetings) > 0; r.WantsToday() || meets && r.IsAnother(f) {
		q.AskOn(&r.Before, false)
		if l, ok := r.openPlatforms(&r.Before, q.Facts); ok {
			q.ask(l)
		}
	}
	if s != nil && f.Presence == policy.Present && f.IsForAll() && !s.WantsSignatures() {
		return // as the rest would find, at more length
	}
	if l, ok := r.openPlatforms(&r.After, q.Facts); ok {
		q.ask(l)
		return
	}
	if q.AskSignatures(r, &r.After, true) {
		return
	}
	after := r.WeighAfter(q.Facts)
	at, _ := after.Served()
	partial := !at.Fact.IsForAll()
	atMirror := after.IsAtMirror() || !after.HasOpenMirror() // else it depends on whether the image is pulled today
	if after.Pull(false) == Works && !partial && atMirror {
		return
	}
	q.AskOn(&r.After, false)
	q.AskOn(&r.Before, false)
	for _, other := range r.OtherRoutes() {
		q.AskOn(other, false)
	}
	q.AskSignatures(r, &r.After, false)
	for _, today := range append(r.OtherRoutes(), &r.Before) {
		q.AskSignatures(r, today, false)
	}
	q.askReferrers(after)
	if partial {
		if l, ok := r.openPlatforms(&r.Before, q.Facts); ok {
			q.ask(l)
		}
	}
}

// firstAnswer returns the first place that nodes ask on the new route, nil if there is none,
// and what counts about it.
func (r *Reroute) firstAnswer(facts policy.Facts) (*mirrors.PullSource, *policy.Fact) {
	for k := range r.After.Sources {
		if s := &r.After.Sources[k]; s.Tried() {
			return s, r.Counted(s, facts.At(s.Location), facts)
		}
	}
	return nil, &policy.NotAsked
}

// AskSignatures adds where nodes look for signatures of the image on route: at the first place
// that serves it, which is the only one where they look, or at each, to know where to copy them
// from. It reports whether that has yet to be looked up.
func (q *Lookups) AskSignatures(r *Reroute, route *mirrors.Route, first bool) bool {
	asks, was := len(q.List), q.Open
	for k := range route.Sources {
		s := &route.Sources[k]
		if !s.Tried() || !s.WantsSignatures() {
			continue
		}
		f := r.Counted(s, q.Facts.At(s.Location), q.Facts)
		if f.Presence != policy.Present && f != &policy.PlatformsNotAsked {
			continue
		}
		if _, known := f.Runs(); !known {
			q.ask(Deeper(s.Location))
		}
		for _, l := range SignaturePlaces(s, f) {
			q.ask(l)
		}
		if first {
			break
		}
	}
	return len(q.List) > asks || q.Open > was
}

// askReferrers adds where to look for signatures that nodes do not know of a copy that has none
// of the others.
func (q *Lookups) askReferrers(route WeighedRoute) {
	for _, at := range route.OpenPlaces() {
		for _, s := range at.SignatureStates {
			if s.Presence == policy.Unsigned {
				q.ask(at.Referrers(s.Digest))
			}
		}
		if at.Fact.Presence.EndsPull() {
			return
		}
	}
}

// openPlatforms returns the location at which to look up the platforms that the first place
// on route with the image serves, if that has yet to be looked up.
func (r *Reroute) openPlatforms(route *mirrors.Route, facts policy.Facts) (mirrors.Location, bool) {
	for k := range route.Sources {
		s := &route.Sources[k]
		f := facts.At(s.Location)
		if !s.Tried() || f.Presence != policy.Present {
			continue
		}
		if !r.wantsPlatforms(s.Location, f) {
			return mirrors.Location{}, false
		}
		answer, asked := facts[Deeper(s.Location)]
		if !asked || answer.Presence == policy.Present {
			return Deeper(s.Location), !asked
		}
	}
	return mirrors.Location{}, false
}

// SignatureLookups returns where the findings of SignaturesAt are to be had that facts do not yet
// allow.
func SignatureLookups(place mirrors.PullSource, facts policy.Facts) []mirrors.Location {
	q := Lookups{Facts: facts}
	q.AskSignatures(&Reroute{}, &mirrors.Route{Sources: []mirrors.PullSource{place}}, true)
	return q.List
}
