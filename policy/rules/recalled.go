package rules

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Decisive returns the locations whose facts are only Recalled and decide the verdict: those
// of images that are denied, and of images found behind such a place. They have to be looked
// up again while time allows, the most important images first. Thousands of references to
// images that are long gone, which deny nothing as they could not be pulled before either,
// thus cost nothing in most reviews.
func Decisive(p plan.Plan, facts policy.Facts) []mirrors.Location {
	recalled := false
	for _, f := range facts {
		recalled = recalled || f.Recalled
	}
	if !recalled {
		return nil
	}
	var decisive []mirrors.Location
	seen := map[mirrors.Location]bool{}
	s := &p.Settings
	for _, k := range p.Ranking() {
		r := &p.Reroutes[k]
		recalled := slices.DeleteFunc(lookedAt(r, facts), func(l mirrors.Location) bool { return !facts.At(l).Recalled })
		if len(recalled) == 0 || !recallDecides(s, r, facts) {
			continue
		}
		for _, l := range recalled {
			if !seen[l] {
				seen[l] = true
				decisive = append(decisive, l)
			}
		}
	}
	return decisive
}

// lookedAt returns the locations whose facts count for r: where more of the manifest at a place
// is wanted, the location that was looked up for that, and where nodes look for signatures of the image
// there.
func lookedAt(r *evidence.Reroute, facts policy.Facts) []mirrors.Location {
	var places []mirrors.Location
	for _, route := range append(r.OtherRoutes(), &r.After, &r.Before) {
		for k := range route.Sources {
			s := &route.Sources[k]
			if !s.Tried() {
				continue
			}
			l := s.Location
			if r.WantsManifest(s, facts.At(l)) {
				l = evidence.Deeper(l)
			}
			places = append(places, l)
			if s.WantsSignatures() {
				places = append(places, evidence.SignaturePlaces(s, r.Counted(s, facts.At(s.Location), facts))...)
			}
		}
	}
	return places
}

func recallDecides(s *settings.Settings, r *evidence.Reroute, facts policy.Facts) bool {
	a := evidence.Assess(s, r, facts)
	denies := func(f policy.Finding) bool { return f.Severity == policy.Deny }
	return a.OutcomeAfter == evidence.WorksBehind || slices.ContainsFunc(judgeOne(s, a), denies)
}
