package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// AllCopies returns Copies, and after them those of images that the mirrors have already: all that the mirrors
// need to hold the images of the change. It takes an Undetermined image for one that they have.
func (p Plan) AllCopies(j Judgement, facts Facts) (all []Copy, missing int) {
	all = j.Copies()
	missing = len(all)
	seen := map[string]bool{}
	for i := range all {
		seen[mirrors.OneSpelling(all[i].To.Ref)] = true
	}
	for _, i := range p.ranking() {
		a := p.settings.assess(&p.Reroutes[i], facts)
		places := a.newRoute.mirrors()
		if a.After.Err != nil || len(places) == 0 || seen[mirrors.OneSpelling(places[0].Ref)] {
			continue
		}
		at := places[0]
		if served, ok := a.newRoute.served(); ok && served.Mirror {
			at = served
		}
		to := mirrors.OneSpelling(at.Ref)
		if seen[to] {
			continue
		}
		seen[to] = true
		all = append(all, *a.copyTo(at.Location))
	}
	return all, missing
}

// An Undetermined is an image that the mirrors on its new route may lack: it could not be determined.
type Undetermined struct {
	Image Image
	// At is the first mirror that may have it, and Why states the fact about that.
	At  mirrors.Location
	Why string
}

// Undetermined returns those of p, each once, protected images first.
func (p Plan) Undetermined(facts Facts) []Undetermined {
	var open []Undetermined
	seen := map[string]bool{}
	for _, i := range p.ranking() {
		a := p.settings.assess(&p.Reroutes[i], facts)
		if a.After.Err != nil || a.mirrors != Unsure || seen[a.Image.Ref] {
			continue
		}
		places := a.newRoute.mirrors()
		at := places[max(0, slices.IndexFunc(places, func(at place) bool { return at.fact.isUndetermined() }))]
		seen[a.Image.Ref] = true
		open = append(open, Undetermined{a.Image, at.Bare(), describe(at.fact)})
	}
	return open
}
