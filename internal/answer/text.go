package answer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Look is the look of a text.
type Look struct {
	// Colours is set for a terminal that has them.
	Colours bool
	// Width is that of items of lists, which are wrapped at spaces; 0 for none.
	Width int
}

// Text returns the answer as a text.
func (a *Answer) Text(look Look) string {
	w := &textWriter{look: look}
	headline := a.Headline
	if headline == "" && a.Verdict != "" {
		headline = a.Verdict + ": " + a.Subject
	}
	if headline != "" && !a.Untold {
		w.line("", Line{{Text: headline, Tone: a.Tone}}, Strong)
	}
	for _, line := range a.Lead {
		w.line("", line, Plain)
	}
	for _, block := range a.Blocks {
		block.text(w)
	}
	for _, note := range a.Notes {
		w.gap()
		w.line("", Labelled(Strong, "Note:", note), Plain)
	}
	for _, basis := range a.Basis {
		w.gap()
		w.line("", Say(basis), Plain)
	}
	return w.b.String()
}

// String returns the answer as a text without colours, in which nothing is wrapped.
func (a *Answer) String() string { return a.Text(Look{}) }

// A textWriter collects lines.
type textWriter struct {
	b    strings.Builder
	look Look
}

// The colours, as every terminal has them (ECMA-48, 8.3.117).
var colours = map[Tone]string{Good: "32", Caution: "33", Bad: "31", Hint: "36", Unknown: "33"}

// span returns a span as it is shown. With Strong, it is bold as well.
func (w *textWriter) span(s Span, strength Tone) string {
	shown := s.Text
	if s.Code {
		shown = text.Lines(shown) // a command may have several
	}
	var codes []string
	if s.Tone == Strong || strength == Strong {
		codes = append(codes, "1")
	}
	if colour := colours[s.Tone]; colour != "" {
		codes = append(codes, colour)
	}
	if !w.look.Colours || len(codes) == 0 || shown == "" {
		return shown
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + shown + "\x1b[0m"
}

// safe returns line without what does not print, on one line but for code.
func safe(line Line) Line {
	shown := make(Line, 0, len(line))
	for i, s := range line {
		if !s.Code {
			words := text.Line(s.Text)
			if i > 0 && strings.HasPrefix(s.Text, " ") && words != "" {
				words = " " + words
			}
			if i < len(line)-1 && strings.HasSuffix(s.Text, " ") {
				words += " "
			}
			s.Text = words
		}
		shown = append(shown, s)
	}
	return shown
}

// line writes a line after a prefix.
func (w *textWriter) line(prefix string, line Line, strength Tone) {
	w.b.WriteString(prefix)
	for _, s := range safe(line) {
		w.b.WriteString(w.span(s, strength))
	}
	w.b.WriteString("\n")
}

// gap separates what follows from what was written.
func (w *textWriter) gap() {
	if w.b.Len() > 0 {
		w.b.WriteString("\n")
	}
}

func (p Paragraph) text(w *textWriter) {
	if len(p) > 0 {
		w.gap()
	}
	for _, line := range p {
		w.line("", line, Plain)
	}
}

func (l List) text(w *textWriter) {
	if len(l.Items) == 0 {
		return
	}
	w.gap()
	indent := ""
	if l.Title != "" {
		w.line("", Line{{Text: l.Title, Tone: l.Tone}}, Strong)
		indent = margin
	}
	w.items("", indent, l.Items)
}

const margin = "  "

// items writes items after a prefix, and those without a mark after an indent, too.
func (w *textWriter) items(prefix, indent string, items []Item) {
	for _, item := range items {
		first, rest := prefix+indent, prefix+indent+margin
		if item.Mark != "" {
			first = prefix + item.Mark + " "
			rest = prefix + strings.Repeat(" ", utf8.RuneCountInString(item.Mark)+1)
		}
		w.wrapped(first, rest, item.Line)
		w.items(rest, "", item.Below)
	}
}

// wrapped writes a line after first, and what has no room in it after rest.
func (w *textWriter) wrapped(first, rest string, line Line) {
	at := 0
	w.b.WriteString(first)
	room := w.look.Width - utf8.RuneCountInString(rest)
	for _, s := range safe(line) {
		if s.Code || w.look.Width == 0 {
			w.b.WriteString(w.span(s, Plain))
			at += utf8.RuneCountInString(s.Text)
			continue
		}
		for i, word := range strings.Split(s.Text, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case at > 0 && at+1+n > room:
				w.b.WriteString("\n" + rest)
				at = 0
			default:
				w.b.WriteString(" ")
				at++
			}
			w.b.WriteString(w.span(Span{Text: word, Tone: s.Tone}, Plain))
			at += n
		}
	}
	w.b.WriteString("\n")
}

func (t Table) text(w *textWriter) {
	if len(t.Rows) == 0 {
		return
	}
	w.gap()
	head := make([]Line, len(t.Head))
	for i, cell := range t.Head {
		head[i] = Line{{Text: cell, Tone: Strong}}
	}
	w.rows(append([][]Line{head}, t.Rows...))
}

// rows writes rows in columns.
func (w *textWriter) rows(rows [][]Line) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(safe(cell).String()))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			cell = safe(cell)
			for _, s := range cell {
				w.b.WriteString(w.span(s, Plain))
			}
			if i < len(row)-1 {
				w.b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.String())+len(margin)))
			}
		}
		w.b.WriteString("\n")
	}
}

// manyFindings are as many as fit on a screen, and need no summary. maxUsers is how many users of an image are named.
const manyFindings, maxUsers = 10, 3

// text writes what is refused, and then warnings.
func (fs Findings) text(w *textWriter) {
	if len(fs) > manyFindings {
		w.gap()
		w.rows(fs.summary())
	}
	number := 0
	for i, f := range fs {
		number++
		if f.Tone != Bad && (i == 0 || fs[i-1].Tone == Bad) {
			w.gap()
			w.line("", Line{{Text: "Warnings:", Tone: Caution}}, Strong)
			number = 1
		}
		w.gap()
		w.line("", Sayf("%d. %s", number, f.subject()), Strong)
		for _, line := range f.lines() {
			w.line("   ", line, Plain)
		}
	}
}

// summary counts findings by rule, the most severe first.
func (fs Findings) summary() (rows [][]Line) {
	for _, g := range fs.groups(func(f *Finding) string { return f.Severity + "\n" + f.Rule }) {
		rows = append(rows, Row("", fs[g.first].Severity, fs[g.first].Rule, text.Number(g.n)))
	}
	return rows
}

// A group is n findings that are alike, by the index of the first, with the first of the namespaces that they are about.
type group struct {
	first, n   int
	namespaces []string
}

// groups returns findings by what makes them alike, in the order of the first of each group.
func (fs Findings) groups(key func(*Finding) string) (all []group) {
	at := map[string]int{}
	for i := range fs {
		k := key(&fs[i])
		if _, known := at[k]; !known {
			at[k] = len(all)
			all = append(all, group{first: i})
		}
		g := &all[at[k]]
		g.n++
		for _, ns := range fs[i].Namespaces {
			if len(g.namespaces) < maxKinds && !slices.Contains(g.namespaces, ns) {
				g.namespaces = append(g.namespaces, ns)
			}
		}
	}
	return all
}

func (f *Finding) subject() string {
	if f.Subject == "" {
		return "the configuration as a whole"
	}
	return f.Subject
}

// lines are a finding in full, below its subject.
func (f *Finding) lines() []Line {
	var lines []Line
	if len(f.Users) > 0 {
		lines = append(lines, Say("used by "+text.Names(f.Users, maxUsers)))
	}
	if f.Reason != "" {
		lines = append(lines, Line{{Text: f.Rule, Tone: f.Tone}, {Text: ": " + f.Reason}})
	}
	for _, detail := range f.Detail {
		lines = append(lines, Say("- "+detail))
	}
	for _, remedy := range f.Remedy {
		lines = append(lines, Line{{Text: "To do:", Tone: Hint}, {Text: " "}, {Text: remedy, Code: true}})
	}
	return lines
}

// String returns a finding in full, without its subject: a line for what uses that, for the reason unless it is "", for each
// detail and for each remedy.
func (f *Finding) String() string {
	return strings.Join(convert.Each(f.lines(), func(line Line) string { return text.Lines(safe(line).String()) }), "\n")
}

func (v Verbatim) text(w *textWriter) {
	w.gap()
	w.b.WriteString(strings.TrimRight(text.Lines(string(v)), "\n") + "\n")
}
