package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A meeting is a place at a mirror where nodes look for several images by tag. It can hold one.
type meeting struct {
	at     mirrors.Location
	others []Image // sorted by reference
}

// setMeetings notes for each image that is pulled by tag at which mirrors on its new route nodes look
// for images of other sources too. Those need not be rerouted. A short name has no meetings: it stands
// for images that have a name of their own.
func (p *Plan) setMeetings() {
	if len(p.routes) == 0 || p.routes[0].after == nil {
		return
	}
	scopes := sharingSources(p.change.After)
	if len(scopes) == 0 {
		return
	}
	m := meetings{first: map[string]Image{}, met: map[string][]Image{}}
	for i := range p.Reroutes {
		if p.Reroutes[i].Puller == mirrors.Nodes {
			m.add(&p.Reroutes[i].After, p.Reroutes[i].Image)
		}
	}
	for img := range p.known.Images.touched(mirrors.ChangedScopes{Scopes: scopes}) {
		if _, rerouted := slices.BinarySearchFunc(p.Reroutes, img.Ref, func(r Reroute, ref string) int { return strings.Compare(r.Image.Ref, ref) }); rerouted {
			continue
		}
		if route, err := p.routes[0].after.Route(img.Ref, ""); err == nil {
			m.add(&route, img)
		}
	}
	if len(m.met) == 0 {
		return
	}
	for i := range p.Reroutes {
		p.Reroutes[i].meetings = m.forReroute(&p.Reroutes[i])
	}
}

// sharingSources returns the sources of s, for tags, that have a mirror in common with another source,
// or one within another's; and wildcards, which have one for all hosts. They are sorted.
func sharingSources(s mirrors.Set) []string {
	sources := map[string]map[string]bool{} // by mirror
	sharing := map[string]bool{}
	for _, e := range s.Entries() {
		if mirrors.KindOf(e.Object) != mirrors.TagMirrorSetGVK.Kind {
			continue
		}
		for _, m := range e.Mirrors {
			if sources[m] == nil {
				sources[m] = map[string]bool{}
			}
			sources[m][e.Source] = true
			sharing[e.Source] = sharing[e.Source] || strings.HasPrefix(e.Source, "*")
		}
	}
	for m, of := range sources {
		for end := len(m); end > 0; end = strings.LastIndexByte(m[:end], '/') {
			others := sources[m[:end]]
			if len(others) > 1 || len(others) == 1 && !maps.Equal(others, of) {
				for _, set := range []map[string]bool{of, others} {
					for source := range set {
						sharing[source] = true
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
	first map[string]Image   // by reference of the place
	met   map[string][]Image // the others as well, where there are any
}

// maxMet bounds the images that are noted at one place. Two are one too many.
const maxMet = 4

func (m *meetings) add(route *mirrors.Route, img Image) {
	if mirrors.ByDigest(img.Ref) || isShort(*route) || onlyHistory(img) {
		return
	}
	for k := range route.Sources {
		s := &route.Sources[k]
		if !s.Mirror || !s.Tried() {
			continue
		}
		first, known := m.first[s.Ref]
		if !known {
			m.first[s.Ref] = img
			continue
		}
		all := m.met[s.Ref]
		if len(all) >= maxMet || sameImage(first.Ref, img.Ref) || slices.ContainsFunc(all, func(known Image) bool { return sameImage(known.Ref, img.Ref) }) {
			continue
		}
		if len(all) == 0 {
			all = append(all, first)
		}
		m.met[s.Ref] = append(all, img)
	}
}

// forReroute returns the meetings of a reroute's image.
func (m *meetings) forReroute(r *Reroute) []meeting {
	if mirrors.ByDigest(r.Image.Ref) || isShort(r.After) {
		return nil
	}
	var all []meeting
	for _, l := range r.After.Mirrors() {
		others := slices.DeleteFunc(slices.Clone(m.met[l.Ref]), func(img Image) bool { return sameImage(img.Ref, r.Image.Ref) })
		if len(others) > 0 {
			slices.SortFunc(others, func(a, b Image) int { return strings.Compare(a.Ref, b.Ref) })
			all = append(all, meeting{l, others})
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
	return okA && okB && nameA == nameB && versionA == versionB
}
