package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Lookups returns the locations on which the decision still depends: those without an entry
// in facts, protected images first. The caller looks them up, enters the results (an Unknown
// fact if there was no answer) and calls Lookups again, until there is nothing left to
// look up or time is up. The mirrors of the new routes come first, and the rest only for
// images that no mirror holds: a good change then costs one request per image.
func (p Plan) Lookups(facts Facts) []mirrors.Location { return p.lookupsOf(p.ranking(), facts) }

// LookupParts returns functions that together name what Lookups does, each for at most most reroutes. The order is the same.
// Lookups that follow from one part's answers need not wait for those to the others.
func (p Plan) LookupParts(most int) []func(Facts) []mirrors.Location {
	var parts []func(Facts) []mirrors.Location
	for order := range slices.Chunk(p.ranking(), most) {
		parts = append(parts, func(facts Facts) []mirrors.Location { return p.lookupsOf(order, facts) })
	}
	return parts
}

// lookupsOf returns the locations on which the decision about some of the reroutes still depends.
func (p Plan) lookupsOf(order []int, facts Facts) []mirrors.Location {
	q := lookups{facts: facts, most: len(order)}
	for _, i := range order {
		q.askOn(&p.Reroutes[i].After, true)
	}
	if len(q.list) > 0 {
		return q.list
	}
	for _, i := range order {
		q.askAfterMirrors(&p.Reroutes[i])
	}
	return q.list
}

// lookups collects locations about which nothing is known.
type lookups struct {
	facts Facts
	asked map[mirrors.Location]struct{}
	list  []mirrors.Location
	most  int // a guess at how many it will be, once there is one
	open  int // how often a location was named again
}

func (q *lookups) ask(l mirrors.Location) {
	if _, known := q.facts[l]; known {
		return
	}
	if q.asked == nil {
		q.asked = make(map[mirrors.Location]struct{}, q.most)
		q.list = make([]mirrors.Location, 0, q.most)
	}
	if _, asked := q.asked[l]; asked {
		q.open++
		return
	}
	q.asked[l] = struct{}{}
	q.list = append(q.list, l)
}

// askOn adds the places that nodes ask on a route, or only the mirrors.
func (q *lookups) askOn(r *mirrors.Route, onlyMirrors bool) {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() && (s.Mirror || !onlyMirrors) {
			q.ask(s.Location)
		}
	}
}

// askAfterMirrors adds the further lookups of r once its mirrors have answered: the platforms of a tag,
// and the signatures that nodes look for; the other places, old ones included, where no mirror is
// certain to serve the image; and the platforms that the old place serves, where the new one lacks
// some.
func (q *lookups) askAfterMirrors(r *Reroute) {
	if r.wantsToday() {
		q.askOn(&r.Before, false)
	}
	if s, f := r.firstAnswer(q.facts); s != nil && f.Presence == Present && f.isForAll() && !s.WantsSignatures() {
		return // as the rest would find, at more length
	}
	if l, ok := r.openPlatforms(&r.After, q.facts); ok {
		q.ask(l)
		return
	}
	if q.askSignatures(r, &r.After, true) {
		return
	}
	after := r.weighAfter(q.facts)
	at, _ := after.served()
	partial := !at.fact.isForAll()
	atMirror := after.isAtMirror() || !after.hasOpenMirror() // else it depends on whether the image is pulled today
	if after.pull(false) == Works && !partial && atMirror {
		return
	}
	q.askOn(&r.After, false)
	q.askOn(&r.Before, false)
	for _, other := range r.otherRoutes() {
		q.askOn(other, false)
	}
	q.askSignatures(r, &r.After, false)
	for _, today := range append(r.otherRoutes(), &r.Before) {
		q.askSignatures(r, today, false)
	}
	q.askReferrers(after)
	if partial {
		if l, ok := r.openPlatforms(&r.Before, q.facts); ok {
			q.ask(l)
		}
	}
}

// firstAnswer returns the first place that nodes ask on the new route, nil if there is none,
// and what counts about it.
func (r *Reroute) firstAnswer(facts Facts) (*mirrors.PullSource, *Fact) {
	for k := range r.After.Sources {
		if s := &r.After.Sources[k]; s.Tried() {
			return s, r.counted(s, facts.At(s.Location), facts)
		}
	}
	return nil, &notAsked
}

// askSignatures adds where nodes look for signatures of the image on route: at the first place
// that serves it, which is the only one where they look, or at each, to know where to copy them
// from. It reports whether that has yet to be looked up.
func (q *lookups) askSignatures(r *Reroute, route *mirrors.Route, first bool) bool {
	asks, was := len(q.list), q.open
	for k := range route.Sources {
		s := &route.Sources[k]
		if !s.Tried() || !s.WantsSignatures() {
			continue
		}
		f := r.counted(s, q.facts.At(s.Location), q.facts)
		if f.Presence != Present && f != &platformsNotAsked {
			continue
		}
		if _, known := f.Runs(); !known {
			q.ask(deeper(s.Location))
		}
		for _, l := range signaturePlaces(s, f) {
			q.ask(l)
		}
		if first {
			break
		}
	}
	return len(q.list) > asks || q.open > was
}

// askReferrers adds where to look for signatures that nodes do not know of a copy that has none
// of the others.
func (q *lookups) askReferrers(route weighedRoute) {
	for _, at := range route.open() {
		for _, s := range at.signatures {
			if s.presence == Unsigned {
				q.ask(at.Referrers(s.Digest))
			}
		}
		if at.fact.Presence.endsPull() {
			return
		}
	}
}

// openPlatforms returns the location at which to look up the platforms that the first place
// on route with the image serves, if that has yet to be looked up.
func (r *Reroute) openPlatforms(route *mirrors.Route, facts Facts) (mirrors.Location, bool) {
	for k := range route.Sources {
		s := &route.Sources[k]
		f := facts.At(s.Location)
		if !s.Tried() || f.Presence != Present {
			continue
		}
		if !r.wantsPlatforms(s.Location, f) {
			return mirrors.Location{}, false
		}
		answer, asked := facts[deeper(s.Location)]
		if !asked || answer.Presence == Present {
			return deeper(s.Location), !asked
		}
	}
	return mirrors.Location{}, false
}

// Locations returns every location on the routes of the plan, sorted.
func (p Plan) Locations() []mirrors.Location {
	var locs []mirrors.Location
	for _, r := range p.Reroutes {
		locs = append(locs, r.Before.Open()...)
		locs = append(locs, r.After.Open()...)
	}
	slices.SortFunc(locs, func(a, b mirrors.Location) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), cmp.Compare(b2i(a.Insecure), b2i(b.Insecure)), cmp.Compare(a.Depth, b.Depth), cmp.Compare(b2i(a.ProposedTrust), b2i(b.ProposedTrust)))
	})
	return slices.Compact(locs)
}
