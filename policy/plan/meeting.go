package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// setMeetings notes, for each image that nodes pull by tag, the mirrors on its new route where nodes of any pool look for images
// of other sources too. Those need not be rerouted. A short name has no meetings: it stands for images that have a name of their
// own.
func (p *Plan) setMeetings() {
	if slices.ContainsFunc(p.Routes, func(r PoolRoutes) bool { return r.After == nil }) {
		return
	}
	scopes := p.sharingScopes()
	if len(scopes) == 0 {
		return
	}
	m := meetings{first: map[string]policy.Image{}, met: map[string][]policy.Image{}}
	for img := range p.Known.Images.Touched(mirrors.ChangedScopes{Scopes: scopes}) {
		img, ok := policy.PulledBy(mirrors.Nodes, img)
		if !ok || mirrors.ByDigest(img.Ref) || policy.OnlyHistory(img) {
			continue
		}
		for i := range p.Routes {
			if route, err := p.Routes[i].After.Route(img.Ref, ""); err == nil {
				m.add(&route, img)
			}
		}
	}
	if len(m.met) == 0 {
		return
	}
	for i := range p.Reroutes {
		if r := &p.Reroutes[i]; r.Puller == mirrors.Nodes {
			rare := r.Rarely()
			rare.Meetings = m.forReroute(r)
			r.SetRare(rare)
		}
	}
}

// sharingScopes returns the scopes that have, for tags, a mirror in common with another one, or one within another's, on the nodes of
// whichever pool; and wildcards, which have one for all hosts. They are sorted.
func (p *Plan) sharingScopes() []string {
	scopes := map[string]map[string]bool{} // by mirror
	sharing := map[string]bool{}
	for i := range p.Routes {
		for prefix, mirror := range p.Routes[i].After.TagMirrors() {
			m := mirrors.OneSpelling(mirror)
			if scopes[m] == nil {
				scopes[m] = map[string]bool{}
			}
			scopes[m][prefix] = true
			sharing[prefix] = sharing[prefix] || strings.HasPrefix(prefix, "*")
		}
	}
	for m, of := range scopes {
		for end := len(m); end > 0; end = strings.LastIndexByte(m[:end], '/') {
			others := scopes[m[:end]]
			if len(others) > 1 || len(others) == 1 && !maps.Equal(others, of) {
				for _, set := range []map[string]bool{of, others} {
					for scope := range set {
						sharing[scope] = true
					}
				}
			}
		}
	}
	maps.DeleteFunc(sharing, func(_ string, shares bool) bool { return !shares })
	return slices.Sorted(maps.Keys(sharing))
}

// meetings are the images that nodes look for at each mirror.
type meetings struct {
	first map[string]policy.Image   // by place, in one spelling
	met   map[string][]policy.Image // the others as well, where there are any
}

// maxMet bounds the images that are noted at one place. Two are one too many.
const maxMet = 4

func (m *meetings) add(route *mirrors.Route, img policy.Image) {
	if evidence.IsShort(*route) {
		return
	}
	for k := range route.Sources {
		s := &route.Sources[k]
		if !s.Mirror || !s.Tried() {
			continue
		}
		at := mirrors.OneSpelling(s.Ref)
		first, known := m.first[at]
		if !known {
			m.first[at] = img
			continue
		}
		all := m.met[at]
		if len(all) >= maxMet || sameImage(first.Ref, img.Ref) || slices.ContainsFunc(all, func(known policy.Image) bool { return sameImage(known.Ref, img.Ref) }) {
			continue
		}
		if len(all) == 0 {
			all = append(all, first)
		}
		m.met[at] = append(all, img)
	}
}

// forReroute returns the meetings of a reroute's image.
func (m *meetings) forReroute(r *evidence.Reroute) []evidence.Meeting {
	if mirrors.ByDigest(r.Image.Ref) || evidence.IsShort(r.After) {
		return nil
	}
	var all []evidence.Meeting
	for _, l := range r.After.Mirrors() {
		others := slices.DeleteFunc(slices.Clone(m.met[mirrors.OneSpelling(l.Ref)]), func(img policy.Image) bool { return sameImage(img.Ref, r.Image.Ref) })
		if len(others) > 0 {
			slices.SortFunc(others, func(a, b policy.Image) int { return strings.Compare(a.Ref, b.Ref) })
			all = append(all, evidence.Meeting{At: l, Others: others})
		}
	}
	return all
}

// sameImage reports whether two references are spellings of one.
func sameImage(a, b string) bool {
	if a == b {
		return true
	}
	nameA, versionA, okA := mirrors.Canonical(a)
	nameB, versionB, okB := mirrors.Canonical(b)
	return okA && okB && versionA == versionB && mirrors.SamePlace(nameA, nameB)
}
