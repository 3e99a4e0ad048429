package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxSources and maxPlaces bound the picture; those with fewer images are drawn as one.
	maxSources, maxPlaces = 12, 18
	// The picture, in its own units.
	flowWidth                        = 1040
	sourceWidth, placeX, placeWidth  = 300, 720, 320
	portHeight, boxHead, boxGap, top = 24, 34, 16, 8
	// maxLabel is how many characters fit into a box.
	maxLabel = 34
)

// A state is the finding at a place for an image, or why it was not asked.
type state string

const (
	stateFound    state = "found"
	stateMissing  state = "missing"
	stateUnknown  state = "not determined"
	stateBlocked  state = "blocked"
	stateNotAsked state = "not asked"
	// stateLeft is that of a place which nodes ask before the change only.
	stateLeft state = "no longer asked"
)

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

// A flow is the picture of sources, places, and the images that go from one to the other.
type flow struct {
	Width, Height int
	Sources       []flowBox
	Places        []flowBox
	Edges         []*flowEdge
	Errors        int // images without a route
}

// A flowBox is a source or a place.
type flowBox struct {
	Label, Full string
	X, Y, W, H  int
}

// A flowEdge is the images of a source for which nodes ask a place.
type flowEdge struct {
	Source, Place string
	// Counts are the images by state.
	Counts map[state]int
	Total  int
	// Lifted is how many images nodes were forbidden to ask for there until now.
	Lifted int
	Mirror bool
	// Registry is that of the place, "" for several.
	Registry string
	// Path, LabelX and LabelY are where it is drawn, Stroke how wide.
	Path           string
	LabelX, LabelY int
	Stroke         string
}

// newFlow draws the new routes.
func newFlow(rerouted []v1alpha1.Rerouted) flow {
	f := flow{Width: flowWidth}
	edges := map[[2]string]*flowEdge{}
	for i := range rerouted {
		r := &rerouted[i]
		if r.After.Error != "" {
			f.Errors++
		}
		addRoutes(edges, r)
	}
	all := make([]*flowEdge, 0, len(edges))
	for _, e := range edges {
		all = append(all, e)
	}
	f.Edges = merged(all)
	f.place()
	return f
}

func addRoutes(edges map[[2]string]*flowEdge, r *v1alpha1.Rerouted) {
	source := text.Cut(sourceOf(r), maxOption)
	at := func(s *v1alpha1.Source) *flowEdge {
		place := text.Cut(placeOf(r, s), maxOption)
		k := [2]string{source, place}
		if edges[k] == nil {
			edges[k] = &flowEdge{Source: source, Place: place, Counts: map[state]int{}, Mirror: s.Mirror, Registry: registryOf(place)}
		}
		return edges[k]
	}
	for i := range r.After.Sources {
		s := &r.After.Sources[i]
		e := at(s)
		e.Total++
		e.Counts[stateOf(s)]++
		if !s.Blocked && slices.ContainsFunc(r.Before.Sources, func(b v1alpha1.Source) bool { return b.Reference == s.Reference && b.Blocked }) {
			e.Lifted++
		}
	}
	for i := range r.Before.Sources {
		s := &r.Before.Sources[i]
		if !s.Blocked && !slices.ContainsFunc(r.After.Sources, func(a v1alpha1.Source) bool { return a.Reference == s.Reference }) {
			e := at(s)
			e.Total++
			e.Counts[stateLeft]++
		}
	}
}

// sourceOf is the scope of the entry that covers an image, or else its registry.
func sourceOf(r *v1alpha1.Rerouted) string {
	if s := cmp.Or(r.After.Entry, r.Before.Entry); s != "" {
		return s
	}
	return registryOf(r.Image)
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
			return place
		}
	}
	return registryOf(s.Reference)
}

// merged draws the sources and places with fewest images as one, and sorts the edges.
func merged(edges []*flowEdge) []*flowEdge {
	sources := most(edges, func(e *flowEdge) string { return e.Source }, maxSources)
	places := most(edges, func(e *flowEdge) string { return e.Place }, maxPlaces)
	byEnds := map[[2]string]*flowEdge{}
	for _, e := range edges {
		if !slices.Contains(sources, e.Source) {
			e.Source = otherSources
		}
		if !slices.Contains(places, e.Place) {
			e.Place, e.Registry = otherPlaces, ""
		}
		k := [2]string{e.Source, e.Place}
		if byEnds[k] == nil {
			byEnds[k] = e
			continue
		}
		byEnds[k].add(e)
	}
	all := make([]*flowEdge, 0, len(byEnds))
	for _, e := range byEnds {
		all = append(all, e)
	}
	rank := func(names []string, name string) int {
		if i := slices.Index(names, name); i >= 0 {
			return i
		}
		return len(names)
	}
	slices.SortFunc(all, func(a, b *flowEdge) int {
		return cmp.Or(cmp.Compare(rank(sources, a.Source), rank(sources, b.Source)), cmp.Compare(order(!a.Mirror), order(!b.Mirror)), cmp.Compare(rank(places, a.Place), rank(places, b.Place)))
	})
	return all
}

const otherSources, otherPlaces = "other sources", "other places"

func (e *flowEdge) add(other *flowEdge) {
	e.Total += other.Total
	e.Lifted += other.Lifted
	e.Mirror = e.Mirror || other.Mirror
	for s, n := range other.Counts {
		e.Counts[s] += n
	}
}

// most returns the names with most images, those first.
func most(edges []*flowEdge, name func(*flowEdge) string, limit int) []string {
	counts := map[string]int{}
	for _, e := range edges {
		counts[name(e)] += e.Total
	}
	names := sortedKeys(counts)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return names[:min(len(names), limit)]
}

// place lays the boxes and the edges out: each edge ends at a line of its own on either side.
func (f *flow) place() {
	var heights [2]int
	f.Sources, heights[0] = boxes(f.Edges, func(e *flowEdge) string { return e.Source }, 0, sourceWidth)
	f.Places, heights[1] = boxes(f.Edges, func(e *flowEdge) string { return e.Place }, placeX, placeWidth)
	f.Height = max(heights[0], heights[1])
	ports := map[*flowBox]int{}
	port := func(all []flowBox, name string) int {
		b := &all[slices.IndexFunc(all, func(b flowBox) bool { return b.Full == name })]
		ports[b]++
		return b.Y + boxHead + (ports[b]-1)*portHeight + portHeight/2
	}
	for _, e := range f.Edges {
		from, to := port(f.Sources, e.Source), port(f.Places, e.Place)
		bend := sourceWidth + (placeX-sourceWidth)/3
		e.Path = fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%d", sourceWidth, from, bend, from, bend-40, to, bend+60, to, placeX)
		e.LabelX, e.LabelY = placeX-10, to-5
		e.Stroke = fmt.Sprintf("%.1f", 1.5+min(4.5, 0.9*log10(e.Total)))
	}
}

// log10 is the number of digits after the first, with a part for the first.
func log10(n int) float64 {
	d := 0.0
	for ; n >= 10; n /= 10 {
		d++
	}
	return d + float64(n-1)/10
}

func boxes(edges []*flowEdge, name func(*flowEdge) string, x, width int) ([]flowBox, int) {
	var all []flowBox
	for _, e := range edges {
		i := slices.IndexFunc(all, func(b flowBox) bool { return b.Full == name(e) })
		if i < 0 {
			i = len(all)
			all = append(all, flowBox{Label: middle(name(e), maxLabel), Full: name(e), X: x, W: width, H: boxHead + boxGap/2})
		}
		all[i].H += portHeight
	}
	y := top
	for i := range all {
		all[i].Y = y
		y += all[i].H + boxGap
	}
	return all, y
}

// middle cuts the middle out of a string that is too long for a box.
func middle(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	half := (limit - 1) / 2
	return string(r[:half]) + "…" + string(r[len(r)-half:])
}

// states are in the order of importance: the first of an edge gives it its colour. An edge looks found
// only if everything on it was found.
var states = []state{stateMissing, stateUnknown, stateNotAsked, stateBlocked, stateFound, stateLeft}

var stateKinds = map[state]string{
	stateMissing: "bad", stateUnknown: "unknown", stateFound: "good", stateBlocked: "blocked", stateNotAsked: "note", stateLeft: "left",
}

// Kind is the colour of the edge.
func (e *flowEdge) Kind() string {
	for _, s := range states {
		if e.Counts[s] > 0 {
			return stateKinds[s]
		}
	}
	return "note"
}

// Label says what was found, with a sign for each state.
func (e *flowEdge) Label() string {
	var parts []string
	for _, s := range states {
		if n := e.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s %s", kinds(stateKinds[s]), text.Number(n), s))
		}
	}
	if e.Lifted > 0 {
		parts = append(parts, "block lifted")
	}
	return strings.Join(parts, "  ")
}

// Role says what the place is to the source.
func (e *flowEdge) Role() string {
	if e.Mirror {
		return "mirror"
	}
	return "source"
}
