package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
	// maxName is the longest name of a source or a place: that of a host.
	maxName = 253
)

// A state is the finding at a place for an image, or why it was not asked.
type state int

// The states are in the order of importance: the first of an edge gives it its colour. An edge looks found
// only if everything on it was found. stateLeft is that of a place which nodes ask before the change only.
const (
	stateMissing state = iota
	stateUnknown
	stateNotAsked
	stateBlocked
	stateFound
	stateLeft
)

var states = [...]struct{ word, kind string }{
	{"missing", "bad"}, {"not determined", "unknown"}, {"not asked", "note"}, {"blocked", "blocked"}, {"found", "good"}, {"no longer asked", "left"},
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

// A flow is the picture of sources, places, and the images that go from one to the other.
type flow struct {
	Width, Height int
	Boxes         []flowBox
	Edges         []*flowEdge
}

// A flowBox is a source or a place.
type flowBox struct {
	Label, Full string
	X, Y, W, H  int
}

// A flowEdge is the images of a source for which nodes ask a place.
type flowEdge struct {
	Source, Place string
	// counts are the images by state.
	counts [len(states)]int
	total  int
	mirror bool
	// Path, LabelX and LabelY are where it is drawn, Stroke how wide.
	Path           string
	LabelX, LabelY int
	Stroke         string
}

// A stop is a place of an image on its route.
type stop struct {
	source, place string
	mirror        bool
	state         state
}

// newFlow draws the new routes.
func newFlow(rerouted []v1alpha1.Rerouted) *flow {
	var stops []stop
	for i := range rerouted {
		stops = append(stops, stopsOf(&rerouted[i])...)
	}
	sources := most(stops, func(s stop) string { return s.source }, maxSources)
	places := most(stops, func(s stop) string { return s.place }, maxPlaces)
	edges := map[[2]string]*flowEdge{}
	for _, s := range stops {
		source, place := oneOf(sources, s.source, "other sources"), oneOf(places, s.place, "other places")
		k := [2]string{source, place}
		if edges[k] == nil {
			edges[k] = &flowEdge{Source: source, Place: place}
		}
		e := edges[k]
		e.mirror = e.mirror || s.mirror
		e.total++
		e.counts[s.state]++
	}
	rank := func(names []string, name string) int { return slices.Index(append(names, name), name) }
	f := &flow{Width: flowWidth}
	f.Edges = slices.SortedFunc(maps.Values(edges), func(a, b *flowEdge) int {
		return cmp.Or(cmp.Compare(rank(sources, a.Source), rank(sources, b.Source)), cmp.Compare(order(!a.mirror), order(!b.mirror)), cmp.Compare(rank(places, a.Place), rank(places, b.Place)))
	})
	f.lay()
	return f
}

// parts are the picture, and the same as a table.
func (f *flow) parts() []part {
	if len(f.Edges) == 0 {
		return nil
	}
	rows := make([]row, len(f.Edges))
	for i, e := range f.Edges {
		rows[i] = cells(e.Source, e.Place, e.Role(), "", e.Label())
		rows[i].Cells[3] = numberCell(e.total)
	}
	return []part{partOf("flow", nil, []flow{*f}), tableOf(table{Caption: "The same as a table", Folded: true}, rows, "Source", "Place that nodes ask", "Role", "Images", "Found there")}
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

// lay lays the boxes and the edges out: each edge ends at a line of its own on either side.
func (f *flow) lay() {
	sources, left := boxes(f.Edges, func(e *flowEdge) string { return e.Source }, 0, sourceWidth)
	places, right := boxes(f.Edges, func(e *flowEdge) string { return e.Place }, placeX, placeWidth)
	f.Boxes, f.Height = slices.Concat(sources, places), max(left, right)
	ports := map[*flowBox]int{}
	port := func(all []flowBox, name string) int {
		b := &all[slices.IndexFunc(all, func(b flowBox) bool { return b.Full == name })]
		ports[b]++
		return b.Y + boxHead + (ports[b]-1)*portHeight + portHeight/2
	}
	for _, e := range f.Edges {
		from, to := port(sources, e.Source), port(places, e.Place)
		bend := sourceWidth + (placeX-sourceWidth)/3
		e.Path = fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%d", sourceWidth, from, bend, from, bend-40, to, bend+60, to, placeX)
		e.LabelX, e.LabelY = placeX-10, to-5
		e.Stroke = fmt.Sprintf("%.1f", 1.5+min(4.5, 1.4*math.Log10(float64(e.total))))
	}
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

// Kind is the colour of the edge.
func (e *flowEdge) Kind() string {
	return states[slices.IndexFunc(e.counts[:], func(n int) bool { return n > 0 })].kind
}

// Label says what was found, with a sign for each state.
func (e *flowEdge) Label() string {
	var parts []string
	for s, n := range e.counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s %s", signs[states[s].kind], text.Number(n), states[s].word))
		}
	}
	return strings.Join(parts, "  ")
}

// Role says what the place is to the source.
func (e *flowEdge) Role() string {
	if e.mirror {
		return "mirror"
	}
	return "source"
}
