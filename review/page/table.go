package page

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A table is the frame of rows.
type table struct {
	ID, Caption string
	Heads       []cell
	// Folded is set if it says what a picture shows.
	Folded bool
}

// A row is one of a table. ID is "" where nothing leads to it.
type row struct {
	ID    string
	Cells []cell
}

// A cell is a text with a kind, a link, or bars.
type cell struct {
	Kind, Text, Link string
	Bars             []bar
}

// A bar is a part of a bar, from X on, in percent.
type bar struct {
	Kind string
	X, W float64
}

// tableOf returns a table; a column is one of numbers if its first cell is.
func tableOf(t table, rows []row, heads ...string) part {
	for i, h := range heads {
		head := cell{Text: h}
		if len(rows) > 0 && rows[0].Cells[i].Kind == number {
			head.Kind = number
		}
		t.Heads = append(t.Heads, head)
	}
	return partOf("table", t, rows)
}

// number is the kind of a cell with a number.
const number = "n"

func numberCell(n int) cell { return cell{Kind: number, Text: text.Number(n)} }

// cells returns a row of plain texts.
func cells(texts ...string) row {
	var r row
	for _, t := range texts {
		r.Cells = append(r.Cells, cell{Text: t})
	}
	return r
}

// bars returns the parts of a bar for counts of these kinds.
func bars(counts []int, kinds ...string) []bar {
	total, x := 0, 0.0
	for _, n := range counts {
		total += n
	}
	var all []bar
	for i, n := range counts {
		if n > 0 {
			w := 100 * float64(n) / float64(total)
			all = append(all, bar{kinds[i], x, w})
			x += w
		}
	}
	return all
}

// A card is a finding, or another answer in full, which can be folded.
type card struct {
	ID, Kind, Title, Tag, Subject string
	Open                          bool
	Reason                        string
	Details                       []cardLine
}

// A cardLine is a line of a card: what it is about, and a code, a list or commands.
type cardLine struct {
	Name, Code string
	Lines      []string
	Commands   string
}

// details returns those of all that say something.
func details(all ...cardLine) []cardLine {
	return slices.DeleteFunc(all, func(d cardLine) bool { return d.Code == "" && len(d.Lines) == 0 && d.Commands == "" })
}

// A lane is a pool with its nodes.
type lane struct {
	Name, Kind, Text string
	Clauses          []string
	Nodes            []node
	Left             int
}

// A node is one of a lane, and what becomes of it.
type node struct{ Name, Kind, What string }

// of returns l with the first of nodes.
func (l lane) of(nodes []node) lane {
	l.Left = max(0, len(nodes)-maxLane)
	l.Nodes = nodes[:len(nodes)-l.Left]
	return l
}

const (
	// maxLane is how many nodes of a pool are drawn, maxPools how many pools.
	maxLane, maxPools = 60, 30
	// maxNamed is how many namespaces or rules of an image are named in its row.
	maxNamed = 3
)
