// Package answer has the answers to people's questions as values, and one renderer for each format in which people and
// pipelines read them: text, Markdown, HTML and JUnit's XML. JSON is not among them: its types are published, in api/v1alpha1.
//
//	a := answer.Answer{Tone: answer.Bad, Verdict: "Refused", Subject: "ImageTagMirrorSet apps", Headline: "ImageTagMirrorSet apps is refused."}
//	a.Add(answer.Findings(found), answer.List{Title: "Not checked:", Items: answer.Bullets(unchecked)})
//	fmt.Print(a.Text(answer.Look{Colours: true, Width: 100}))
//
// A text may come from anywhere, and need not be safe to show: renderers make it so, with package text.
//
// The package is pure and knows nothing about images.
package answer

import (
	"fmt"
	"iter"
	"strings"
	"time"
)

// An Answer is the result of a question, for people and pipelines.
type Answer struct {
	// Verdict is the answer in a word or two ("Denied"), "" for an answer that is none, and Tone what it means.
	Verdict string
	Tone    Tone
	// Subject names what it is about.
	Subject string
	// Headline is the answer in a sentence; "" where verdict and subject say it. Untold is set where a text goes without it, and
	// without a verdict, as its blocks say it all.
	Headline string
	Untold   bool
	// Lead are lines that go with the headline.
	Lead   []Line
	Blocks []Block
	// Notes are remarks on the answer as a whole, and Basis sentences on what it rests on.
	Notes, Basis []string
	// Cases are the tests of which the answer is the result; nil if there are none.
	Cases iter.Seq[Case]
	// Took is how long it took.
	Took time.Duration
}

// Add adds blocks.
func (a *Answer) Add(blocks ...Block) { a.Blocks = append(a.Blocks, blocks...) }

// A Tone is the meaning of a text beside its words. Where there are colours, it has one.
type Tone int

// The tones. Strong is that of titles, and Hint that of what to do. Unknown is for what could not be determined. The others are those of
// pictures: what waits, what is not allowed, and what is over.
const (
	Plain Tone = iota
	Good
	Caution
	Bad
	Hint
	Strong
	Unknown
	Idle
	Blocked
	Past
)

// A Span is text in one tone.
type Span struct {
	Text string
	Tone Tone
	// Code is set for what people copy, such as a command or a reference: it is neither wrapped nor cut.
	Code bool
	// Link is where a page has more of it, and Bar a bar that a page draws behind it.
	Link string
	Bar  []Share
}

// A Line is one line of text.
type Line []Span

// Say returns a line in the plain tone.
func Say(text string) Line { return Line{{Text: text}} }

// Sayf returns a line in the plain tone.
func Sayf(format string, args ...any) Line { return Say(fmt.Sprintf(format, args...)) }

// Code returns a line that people copy.
func Code(text string) Line { return Line{{Text: text, Code: true}} }

// Labelled returns a line that begins with a label in a tone of its own.
func Labelled(tone Tone, label, text string) Line {
	return Line{{Text: label, Tone: tone}, {Text: " " + text}}
}

// String returns the line without its tones.
func (l Line) String() string {
	s := ""
	for _, span := range l {
		s += span.Text
	}
	return s
}

// A Block is a part of an answer: Paragraph, List, Table, Findings or Verbatim; or what only a page shows.
type Block interface {
	text(w *textWriter)
	markdown(w *markdownWriter)
	html(w *pageWriter)
}

// A Paragraph is a few lines in a row.
type Paragraph []Line

// Paragraphf returns a paragraph of one line.
func Paragraphf(format string, args ...any) Paragraph { return Paragraph{Sayf(format, args...)} }

// Stated returns a paragraph that begins with a label, and goes on with details, a line each.
func Stated(label string, tone Tone, reason string, details []string) Paragraph {
	p := Paragraph{Labelled(tone, label, reason)}
	for _, detail := range details {
		p = append(p, Say("- "+detail))
	}
	return p
}

// A List is a title with lines below it.
type List struct {
	// ID names the section that the list is in a page; "" if it is a part of one.
	ID    string
	Title string // with its colon
	Tone  Tone   // of the title; Strong if it is Plain
	Items []Item
	// Folded is set for a list that is shown on demand, where a format has that.
	Folded bool
}

// An Item is a line of a list, with the items below it.
type Item struct {
	// Mark stands before the line: "-", "1.". An item without one is indented instead.
	Mark  string
	Line  Line
	Below []Item
}

// Bullets returns lines as items.
func Bullets(lines []string) []Item { return marked("-", lines) }

// Indented returns lines as items without a mark. A line that is indented itself is below the one before it.
func Indented(lines []string) []Item {
	var items []Item
	for _, item := range marked("", lines) {
		if last := len(items) - 1; last >= 0 && strings.HasPrefix(item.Line[0].Text, " ") {
			items[last].Below = append(items[last].Below, item)
			continue
		}
		items = append(items, item)
	}
	return items
}

// Commands returns lines that people copy as items.
func Commands(lines []string) []Item {
	items := Bullets(lines)
	for i := range items {
		items[i].Line[0].Code = true
	}
	return items
}

func marked(mark string, lines []string) []Item {
	items := make([]Item, len(lines))
	for i, line := range lines {
		items[i] = Item{Mark: mark, Line: Say(line)}
	}
	return items
}

// A Table is rows below a head. Cells that are missing are empty.
type Table struct {
	// Title is its caption in a page, where ID names it, and Anchor, with a number, each row.
	Title, ID, Anchor string
	// Folded is set for one that a page shows on demand.
	Folded bool
	Head   []string
	Rows   [][]Line
}

// Row returns a row of cells in the plain tone.
func Row(cells ...string) []Line {
	row := make([]Line, len(cells))
	for i, cell := range cells {
		row[i] = Say(cell)
	}
	return row
}

// Findings are objections, the most severe first.
type Findings []Finding

// A Finding is one objection in the words in which it is told.
type Finding struct {
	Rule string
	// Severity is in a word, and Tone what it means: Bad for what is refused.
	Severity string
	Tone     Tone
	// Subject is the image that it is about, "" for the configuration as a whole, and Users what uses the image, in Namespaces.
	Subject           string
	Users, Namespaces []string
	// Reason is short, and Detail what was found.
	Reason string
	Detail []string
	// Remedy is what to do: commands, or a sentence.
	Remedy []string
}

// A Verbatim is a text of several lines that is shown as it is.
type Verbatim string

// A Case is a test of a suite.
type Case struct {
	Class, Name string
	// Failed is the kind of the failure, "" for none, and Message its reason.
	Failed, Message string
	// Lines come before the findings.
	Lines    []string
	Findings []Finding
}

// CaseOf returns the test of something with findings. The first that is refused fails it.
func CaseOf(class, name string, findings []Finding) Case {
	c := Case{Class: class, Name: name, Findings: findings}
	for _, f := range findings {
		if f.Tone == Bad {
			c.Failed, c.Message = f.Rule, f.Reason
			break
		}
	}
	return c
}
