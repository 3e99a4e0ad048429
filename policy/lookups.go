package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Lookups returns the locations on which the decision still depends: those without an entry
// in facts, protected images first. The caller looks them up, enters the results (an Unknown
// fact where there was no answer) and calls Lookups again, until there is nothing left to
// look up or time is up. The mirrors of the new routes come first, and the rest only for
// images that no mirror holds, so that a good change costs one request per image.
func (p Plan) Lookups(facts Facts) []mirrors.Location {
	q := lookups{facts: facts, most: len(p.Reroutes)}
	order := p.ranking()
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

// askAfterMirrors adds what is of interest about r once its mirrors have answered: the
// platforms of a tag; the other places, old ones included, where no mirror is certain to
// serve the image; and the platforms that the old place serves, where the new one lacks some.
func (q *lookups) askAfterMirrors(r *Reroute) {
	if f := r.firstAnswer(q.facts); f.Presence == Present && f.isWhole() && !f.Guessed {
		return // as what follows would find, at more length
	}
	if l, ok := r.openPlatforms(&r.After, q.facts); ok {
		q.ask(l)
		return
	}
	after := r.weigh(q.facts, false).after
	at, _ := after.served()
	partial := !at.fact.isWhole() || at.fact.Guessed
	if after.pull(false) == Works && !partial {
		return
	}
	q.askOn(&r.After, false)
	q.askOn(&r.Before, false)
	if partial {
		if l, ok := r.openPlatforms(&r.Before, q.facts); ok {
			q.ask(l)
		}
	}
}

// firstAnswer returns what counts about the first place that nodes ask on the new route.
func (r *Reroute) firstAnswer(facts Facts) *Fact {
	for k := range r.After.Sources {
		if s := &r.After.Sources[k]; s.Tried() {
			f, _ := r.counted(s.Location, facts.At(s.Location), facts)
			return f
		}
	}
	return &notAsked
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

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
