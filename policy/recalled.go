package policy

import (
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Freshness says how old facts may be that are asked for. The zero value is for those whose time is not over, by their kinds.
type Freshness struct {
	// Recalled lets misses count that are no longer fresh, and signatures to which others may have been added, as
	// Recalled. They are good enough to find out what else has to be looked up.
	Recalled bool
	// Since, unless zero, has what Recalled is about looked up again, if it was learned before: callers that ask
	// at the same moment share one lookup, however long each of them has to wait for its turn.
	Since time.Time
}

// Decisive returns the locations whose facts are only Recalled and decide the verdict: those
// of images that are denied, and of images found behind such a place. They have to be looked
// up again while time allows, the most important images first. Thousands of references to
// images that are long gone, which deny nothing as they could not be pulled before either,
// thus cost nothing in most reviews.
func (p Plan) Decisive(facts Facts) []mirrors.Location {
	recalled := false
	for _, f := range facts {
		recalled = recalled || f.Recalled
	}
	if !recalled {
		return nil
	}
	var decisive []mirrors.Location
	seen := map[mirrors.Location]bool{}
	s := &p.settings
	for _, k := range p.ranking() {
		r := &p.Reroutes[k]
		if !r.restsOnRecall(facts) || !s.recallDecides(r, facts) {
			continue
		}
		for _, l := range r.lookedAt(facts) {
			if facts.At(l).Recalled && !seen[l] {
				seen[l] = true
				decisive = append(decisive, l)
			}
		}
	}
	return decisive
}

func (r *Reroute) restsOnRecall(facts Facts) bool {
	return slices.ContainsFunc(r.lookedAt(facts), func(l mirrors.Location) bool { return facts.At(l).Recalled })
}

// lookedAt returns the locations whose facts count for r: where more of the manifest at a place
// is wanted, the location that was looked up for that, and where nodes look for signatures of the image
// there.
func (r *Reroute) lookedAt(facts Facts) []mirrors.Location {
	var places []mirrors.Location
	for _, route := range append(r.otherRoutes(), &r.After, &r.Before) {
		for k := range route.Sources {
			s := &route.Sources[k]
			if !s.Tried() {
				continue
			}
			l := s.Location
			if r.wantsManifest(s, facts.At(l)) {
				l = deeper(l)
			}
			places = append(places, l)
			if s.WantsSignatures() {
				places = append(places, signaturePlaces(s, r.counted(s, facts.At(s.Location), facts))...)
			}
		}
	}
	return places
}

func (s *Settings) recallDecides(r *Reroute, facts Facts) bool {
	a := s.assess(r, facts)
	denies := func(f Finding) bool { return f.Severity == Deny }
	return a.after == WorksBehind || slices.ContainsFunc(s.judge(a), denies)
}
