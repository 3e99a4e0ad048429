package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxSources and maxPlaces bound the picture; those with fewer images are drawn as one.
	maxSources, maxPlaces = 12, 18
	// maxName is the longest name of a source or a place: that of a host.
	maxName = 253
)

// A state is the finding at a place for an image, or why it was not asked.
type state int

// The states are in the order of importance: the first of an edge gives it its tone. An edge looks found
// only if everything on it was found. stateLeft is that of a place which nodes ask before the change only.
const (
	stateMissing state = iota
	stateUnknown
	stateNotAsked
	stateBlocked
	stateFound
	stateLeft
)

var states = [...]answer.Count{
	{Word: "missing", Tone: answer.Bad},
	{Word: "not determined", Tone: answer.Unknown},
	{Word: "not asked", Tone: answer.Idle},
	{Word: "blocked", Tone: answer.Blocked},
	{Word: "found", Tone: answer.Good},
	{Word: "no longer asked", Tone: answer.Past},
}

// stateOf returns the state of a place.
func stateOf(s *v1alpha1.Source) state {
	switch {
	case s.Blocked || s.Refused:
		return stateBlocked
	case s.Fact == nil:
		return stateNotAsked
	}
	switch s.Fact.Presence {
	case "present":
		return stateFound
	case "absent", "mismatch", "incomplete", "unsigned", "missigned":
		return stateMissing
	default:
		return stateUnknown
	}
}

// A stop is a place of an image on its route.
type stop struct {
	source, place string
	mirror        bool
	state         state
}

// flow draws the new routes.
func flow(rerouted []v1alpha1.Rerouted) answer.Flow {
	var stops []stop
	for i := range rerouted {
		stops = append(stops, stopsOf(&rerouted[i])...)
	}
	sources := most(stops, func(s stop) string { return s.source }, maxSources)
	places := most(stops, func(s stop) string { return s.place }, maxPlaces)
	f := answer.Flow{
		Label: "Sources and the places that nodes ask for their images.",
		Head:  []string{"Source", "Place that nodes ask", "Role", "Images", "Found there"},
	}
	at := map[[2]string]int{}
	for _, s := range stops {
		k := [2]string{oneOf(sources, s.source, "other sources"), oneOf(places, s.place, "other places")}
		if _, known := at[k]; !known {
			at[k] = len(f.Edges)
			f.Edges = append(f.Edges, answer.Edge{From: k[0], To: k[1], Role: "source", Counts: slices.Clone(states[:])})
		}
		e := &f.Edges[at[k]]
		if e.Counts[s.state].N++; s.mirror {
			e.Role = "mirror"
		}
	}
	rank := func(names []string, name string) int { return slices.Index(append(names, name), name) }
	slices.SortFunc(f.Edges, func(a, b answer.Edge) int {
		return cmp.Or(cmp.Compare(rank(sources, a.From), rank(sources, b.From)), cmp.Compare(a.Role, b.Role), cmp.Compare(rank(places, a.To), rank(places, b.To)))
	})
	return f
}

// stopsOf returns the places of an image: those of its new route, and those that only its old one has.
func stopsOf(r *v1alpha1.Rerouted) []stop {
	source := text.Cut(cmp.Or(r.After.Entry, r.Before.Entry, registryOf(r.Image)), maxName)
	var all []stop
	for i := range r.After.Sources {
		s := &r.After.Sources[i]
		all = append(all, stop{source, placeOf(r, s), s.Mirror, stateOf(s)})
	}
	for i := range r.Before.Sources {
		s := &r.Before.Sources[i]
		if !s.Blocked && !slices.ContainsFunc(r.After.Sources, func(a v1alpha1.Source) bool { return a.Reference == s.Reference }) {
			all = append(all, stop{source, placeOf(r, s), s.Mirror, stateLeft})
		}
	}
	return all
}

// placeOf is what of the place's name stands in for the source.
func placeOf(r *v1alpha1.Rerouted, s *v1alpha1.Source) string {
	entry := cmp.Or(r.After.Entry, r.Before.Entry)
	sources := r.After.Sources
	if len(sources) == 0 {
		sources = r.Before.Sources
	}
	for i := range sources {
		origin := &sources[i]
		rest, covered := strings.CutPrefix(origin.Reference, entry)
		if place, same := strings.CutSuffix(s.Reference, rest); !origin.Mirror && entry != "" && covered && same && place != "" {
			return text.Cut(place, maxName)
		}
	}
	return text.Cut(registryOf(s.Reference), maxName)
}

// most returns the names with most images, those first.
func most(stops []stop, name func(stop) string, limit int) []string {
	counts := map[string]int{}
	for _, s := range stops {
		counts[name(s)]++
	}
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return slices.Clip(names[:min(len(names), limit)])
}

// oneOf returns name if it is among names, else other.
func oneOf(names []string, name, other string) string {
	if slices.Contains(names, name) {
		return name
	}
	return other
}
