package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A picture is a part of an answer that only a page shows.
type picture struct{}

func (picture) text(*textWriter)         {}
func (picture) markdown(*markdownWriter) {}
func (picture) html(*pageWriter)         {}

// Drawn are blocks that only a page shows. They are made when it is.
type Drawn struct {
	picture
	Blocks func() []Block
}

// Printed is a block that a page goes without, as it draws the same.
type Printed struct{ Block }

func (Printed) html(*pageWriter) {}

// A Section is the title of the blocks after it.
type Section struct {
	picture
	ID, Title string
	// Note stands behind the title: how many there are. That of findings need not be given.
	Note string
	// Last is set for a section that has the room which the others leave.
	Last bool
}

// A Named value is one of those that an answer rests on.
type Named struct {
	picture
	Name, Value string
}

// Figures are numbers at a glance.
type Figures []Figure

func (Figures) text(*textWriter)         {}
func (Figures) markdown(*markdownWriter) {}

// A Figure is a number. Link leads to a section, as in "#findings".
type Figure struct {
	Number, Label string
	Tone          Tone
	Link          string
}

// A Share is a part of a bar.
type Share struct {
	N    int
	Tone Tone
}

// A Grid has a cell for each of several things.
type Grid struct {
	picture
	Title string
	Cells []Cell
	// Anchor is that of the table in which each cell has a row; "" if there is none.
	Anchor string
	// Most is how many cells are drawn, 0 for any number.
	Most int
}

// A Cell is one of a Grid: a name, and what is said of it in a word.
type Cell struct {
	Name, Word string
	Tone       Tone
}

// A Flow is a picture of how many things go from where to where, and the same as a table.
type Flow struct {
	picture
	// Label says what is to be seen, and Head are the heads of the table: of From, To, Role, the number and what was found.
	Label string
	Head  []string
	Edges []Edge
}

// An Edge leads from a box on the left to one on the right. Its first count that is not 0 gives it its tone.
type Edge struct {
	From, To, Role string
	Counts         []Count
}

// A Count is a number of things of which the same was found.
type Count struct {
	N    int
	Word string
	Tone Tone
}

// Total is the number of things.
func (e *Edge) Total() int {
	n := 0
	for _, c := range e.Counts {
		n += c.N
	}
	return n
}

// Found says what was found, with a sign for each count.
func (e *Edge) Found() string {
	var parts []string
	for _, c := range e.Counts {
		if c.N > 0 {
			parts = append(parts, fmt.Sprintf("%s %s %s", looks[c.Tone].sign, text.Number(c.N), c.Word))
		}
	}
	return strings.Join(parts, "  ")
}

// Kind is the class of the edge.
func (e *Edge) Kind() string {
	return looks[e.Counts[slices.IndexFunc(e.Counts, func(c Count) bool { return c.N > 0 })].Tone].kind
}

// A flowPicture is a Flow with the place of everything.
type flowPicture struct {
	Label         string
	Width, Height int
	Boxes         []flowBox
	Lines         []flowLine
}

type flowBox struct {
	Name       string
	X, Y, W, H int
}

type flowLine struct {
	*Edge
	Path           string
	LabelX, LabelY int
	Stroke         string
}

// The picture, in its own units.
const (
	flowWidth                        = 1040
	sourceWidth, placeX, placeWidth  = 300, 720, 320
	portHeight, boxHead, boxGap, top = 24, 34, 16, 8
)

// laid returns f with the place of everything: each edge ends at a line of its own on either side.
func (f *Flow) laid() flowPicture {
	from, left := flowBoxes(f.Edges, func(e *Edge) string { return e.From }, 0, sourceWidth)
	to, right := flowBoxes(f.Edges, func(e *Edge) string { return e.To }, placeX, placeWidth)
	p := flowPicture{Label: f.Label, Width: flowWidth, Height: max(left, right), Boxes: slices.Concat(from, to)}
	ports := map[*flowBox]int{}
	port := func(all []flowBox, name string) int {
		b := &all[slices.IndexFunc(all, func(b flowBox) bool { return b.Name == name })]
		ports[b]++
		return b.Y + boxHead + (ports[b]-1)*portHeight + portHeight/2
	}
	for i := range f.Edges {
		e := &f.Edges[i]
		start, end := port(from, e.From), port(to, e.To)
		bend := sourceWidth + (placeX-sourceWidth)/3
		p.Lines = append(p.Lines, flowLine{
			Edge: e, LabelX: placeX - 10, LabelY: end - 5,
			Path:   fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%d", sourceWidth, start, bend, start, bend-40, end, bend+60, end, placeX),
			Stroke: fmt.Sprintf("%.1f", 1.5+min(4.5, 1.4*math.Log10(float64(max(1, e.Total()))))),
		})
	}
	return p
}

func flowBoxes(edges []Edge, name func(*Edge) string, x, width int) ([]flowBox, int) {
	var all []flowBox
	for k := range edges {
		i := slices.IndexFunc(all, func(b flowBox) bool { return b.Name == name(&edges[k]) })
		if i < 0 {
			i = len(all)
			all = append(all, flowBox{Name: name(&edges[k]), X: x, W: width, H: boxHead + boxGap/2})
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
func middle(s string) string {
	const limit = 34
	r := []rune(text.Line(s))
	if len(r) <= limit {
		return string(r)
	}
	half := (limit - 1) / 2
	return string(r[:half]) + "…" + string(r[len(r)-half:])
}

func (f Flow) html(w *pageWriter) {
	if len(f.Edges) == 0 {
		return
	}
	w.draw("flow", nil, rows{n: 1, row: func(int) any { return f.laid() }})
	t := Table{Title: "The same as a table", Folded: true, Head: f.Head}
	for i := range f.Edges {
		e := &f.Edges[i]
		t.Rows = append(t.Rows, Row(e.From, e.To, e.Role, text.Number(e.Total()), e.Found()))
	}
	t.html(w)
}

func (g Grid) html(w *pageWriter) {
	w.draw("grid", g.Title, rows{n: len(g.Cells), most: g.Most, bytes: findingsRoom, row: func(i int) any {
		link := ""
		if g.Anchor != "" {
			link = fmt.Sprintf("#%s-%d", g.Anchor, i+1)
		}
		return struct {
			Cell
			Link string
		}{g.Cells[i], link}
	}})
}

// A barPart is a Share with its place, in percent.
type barPart struct {
	Kind string
	X, W float64
}

func bar(shares []Share) (parts []barPart) {
	total, x := 0, 0.0
	for _, s := range shares {
		total += s.N
	}
	for _, s := range shares {
		if w := 100 * float64(s.N) / float64(max(1, total)); w > 0 {
			parts = append(parts, barPart{cmp.Or(looks[s.Tone].kind, "note"), x, w})
			x += w
		}
	}
	return parts
}
