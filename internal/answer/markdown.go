package answer

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxComment bounds the whole, and maxTable what comes before the details, in bytes: a comment on a
	// merge request has 65,536 characters on GitHub, which refuses a longer one.
	maxComment = 60_000
	maxTable   = maxComment / 2
	// maxCell, maxLine and maxFold bound a cell, a line and the details of a finding, in characters.
	maxCell = 300
	maxLine = 1000
	maxFold = 2500
)

// Markdown returns the answer as GitHub Flavored Markdown, to be put into a merge request or a ticket: with no more than a comment
// may have, the details last and folded. Subjects and what people copy are in code spans and code blocks, where they mean nothing.
func (a *Answer) Markdown() string {
	w := new(markdownWriter)
	title := text.Markdown(a.Verdict)
	if a.Subject != "" {
		title = strings.TrimPrefix(title+": ", ": ") + code(a.Subject)
	}
	if title != "" {
		w.b.WriteString("### " + title + "\n")
	}
	if a.Headline != "" {
		w.line(Say(a.Headline))
	}
	for _, line := range a.Lead {
		w.line(line)
	}
	for _, note := range a.Notes {
		w.within(maxTable/2, "\n> "+escape(note, maxLine)+"\n")
	}
	for _, block := range a.Blocks {
		block.markdown(w)
	}
	for _, fold := range w.folds {
		if !w.within(maxComment, fold()) {
			break
		}
	}
	return w.b.String()
}

// A markdownWriter collects Markdown, and what is folded for its end.
type markdownWriter struct {
	b     strings.Builder
	folds []func() string // there may be 100,000, of which few have room
}

// within writes s if all has at most limit bytes then, and reports whether it did.
func (w *markdownWriter) within(limit int, s string) bool {
	if w.b.Len()+len(s) > limit {
		return false
	}
	w.b.WriteString(s)
	return true
}

// line writes a paragraph of a line.
func (w *markdownWriter) line(line Line) { w.within(maxComment, "\n"+inline(line, maxLine)+"\n") }

// inline returns as much of each span of a line as has room.
func inline(line Line, limit int) string {
	var b strings.Builder
	for _, s := range safe(line) {
		if s.Code {
			b.WriteString(code(s.Text))
			continue
		}
		words := strings.TrimSpace(s.Text)
		before, after, _ := strings.Cut(s.Text, words)
		b.WriteString(before + escape(words, limit) + after)
	}
	return b.String()
}

// escape returns as much of s as has room, as text.
func escape(s string, limit int) string { return text.Markdown(text.Cut(text.Line(s), limit)) }

// code returns as much of s as has room in a cell, as a code span.
func code(s string) string { return text.Code(text.Cut(text.Line(s), maxCell)) }

// fold puts lines, as a code block, below a title that is Markdown already.
func (w *markdownWriter) fold(title, lines func() string) {
	w.folds = append(w.folds, func() string {
		block := text.Block(text.Cut(strings.TrimRight(text.Lines(lines()), "\n"), maxFold))
		return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n</details>\n", title(), block)
	})
}

func (p Paragraph) markdown(w *markdownWriter) {
	for _, line := range p {
		w.line(line)
	}
}

func (l List) markdown(w *markdownWriter) {
	if len(l.Items) == 0 {
		return
	}
	if l.Folded {
		w.fold(func() string { return escape(strings.TrimSuffix(l.Title, ":"), maxCell) }, func() string {
			folded := &textWriter{}
			folded.items("", "", l.Items)
			return folded.b.String()
		})
		return
	}
	if l.Title != "" {
		w.line(Say(l.Title))
	}
	w.within(maxTable, "\n")
	w.items("", l.Items)
}

func (w *markdownWriter) items(indent string, items []Item) {
	for i, item := range items {
		if !w.within(maxTable, indent+"- "+inline(item.Line, maxLine)+"\n") {
			w.more(len(items)-i, "line")
			return
		}
		w.items(indent+"  ", item.Below)
	}
}

// more counts what was left out.
func (w *markdownWriter) more(n int, noun string) {
	fmt.Fprintf(&w.b, "\nAnd %s.\n", text.Count(n, "more "+noun))
}

func (t Table) markdown(w *markdownWriter) { w.table(t.Head, t.Rows, "row") }

// table writes as many rows as have room, and counts the others.
func (w *markdownWriter) table(head []string, rows [][]Line, noun string) {
	if len(rows) == 0 {
		return
	}
	w.within(maxTable, "\n| "+strings.Join(head, " | ")+" |\n|"+strings.Repeat("---|", len(head))+"\n")
	for i, row := range rows {
		var b strings.Builder
		for _, line := range row {
			b.WriteString("| " + strings.ReplaceAll(inline(line, maxCell), "|", `\|`) + " ")
		}
		if !w.within(maxTable, b.String()+"|\n") {
			w.more(len(rows)-i, noun)
			return
		}
	}
}

func (fs Findings) markdown(w *markdownWriter) {
	rows := make([][]Line, len(fs))
	for i, f := range fs {
		rows[i] = []Line{Say(f.Severity), Say(f.Rule), Code(f.Subject), Say(f.Reason)}
	}
	w.table([]string{"", "rule", "image", "reason"}, rows, "finding")
	for _, f := range fs {
		w.fold(func() string { return escape(f.Rule, maxCell) + ": <code>" + escape(f.subject(), maxCell) + "</code>" }, f.String)
	}
}

func (v Verbatim) markdown(w *markdownWriter) {
	w.within(maxComment, "\n"+text.Block(text.Cut(strings.TrimRight(text.Lines(string(v)), "\n"), maxFold)))
}
