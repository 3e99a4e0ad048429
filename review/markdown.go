package review

import (
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	// maxComment bounds the whole, and maxTable what comes before the details, in bytes: a comment on a
	// merge request has 65,536 characters on GitHub, which refuses a longer one.
	maxComment = 60_000
	maxTable   = maxComment / 2
	// maxCell and maxFold bound a cell and the details of a finding, in characters.
	maxCell = 300
	maxFold = 2500
	// maxFoldedConsumers is how many users of an image are named.
	maxFoldedConsumers = 5
)

// WriteMarkdown writes r as a Comment.
func (r Record) WriteMarkdown(w io.Writer) error {
	v := r.Verdict
	c := Comment{Outcome: r.outcome(), Subject: r.Subject, Notes: r.Notes, Findings: v.Findings}
	c.Lines = []string{fmt.Sprintf("%s of %s change their route: %s verified, %s%s not verified.", text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"),
		text.Number(v.Counts.Verified), v.Counts.AssumedToo(), text.Number(v.Counts.Unverified))}
	if r.Forecast != nil {
		c.Lines = append(c.Lines, fmt.Sprintf("Forecast: it %s.", r.Forecast))
	}
	if lines := r.Judged().assumedLines(); len(lines) > 0 {
		c.Fold, c.Folded = "Assumed, not found", lines
	}
	return c.Write(w)
}

// A Comment is an answer as GitHub Flavored Markdown, to be put into a merge request: the verdict, a
// table of findings, and the details of each, folded. Texts that users of the cluster may choose, such
// as the names of images, are in code spans and code blocks, where they mean nothing.
type Comment struct {
	// Outcome is the verdict in a word or two, and Subject what it is about.
	Outcome, Subject string
	// Lines are the answer in short, a paragraph each.
	Lines    []string
	Notes    []string
	Findings []policy.Finding
	// Fold is the title of Folded, which are shown on demand; "" for none.
	Fold   string
	Folded []string
}

// Write writes c, with no more than a comment may have.
func (c Comment) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s\n", c.Outcome, code(c.Subject))
	for _, line := range c.Lines {
		fmt.Fprintf(&b, "\n%s\n", escape(line))
	}
	for _, note := range c.Notes {
		writeWithin(&b, maxTable/2, "\n> "+escape(note)+"\n")
	}
	if len(c.Findings) > 0 {
		b.WriteString("\n| | rule | image | reason |\n|---|---|---|---|\n")
	}
	for i, f := range c.Findings {
		if !writeWithin(&b, maxTable, fmt.Sprintf("| %s | %s | %s | %s |\n", f.Severity, f.Rule, cell(code(f.Image.Ref)), cell(escape(f.Reason)))) {
			more := len(c.Findings) - i
			fmt.Fprintf(&b, "\nAnd %s.\n", text.Plural(more, "1 more finding", text.Number(more)+" more findings"))
			break
		}
	}
	if c.Fold != "" {
		writeWithin(&b, maxComment, fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n</details>\n", text.Markdown(c.Fold), block(strings.Join(c.Folded, "\n"))))
	}
	for _, f := range c.Findings {
		if !writeWithin(&b, maxComment, folded(f)) {
			break
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// outcome is the verdict in a word or two.
func (r Record) outcome() string {
	switch {
	case !r.Verdict.Allowed:
		return "Denied"
	case r.Verdict.Waived():
		return "Admitted only because of the mode"
	case len(r.Warnings()) > 0:
		return "Admitted with warnings"
	default:
		return "Admitted"
	}
}

func folded(f policy.Finding) string {
	about := "the configuration"
	if f.Image.Ref != "" {
		about = f.Image.Ref
	}
	var lines []string
	if consumers := f.Image.ConsumerNames(maxFoldedConsumers); consumers != "" {
		lines = append(lines, "used by "+consumers)
	}
	lines = append(lines, f.Detail...)
	if len(f.Remedy) > 0 {
		lines = append(append(lines, "", "To do:"), f.Remedy...)
	}
	return fmt.Sprintf("\n<details><summary>%s: <code>%s</code></summary>\n\n%s\n</details>\n", f.Rule, escape(about), block(strings.Join(lines, "\n")))
}

// writeWithin writes s if b has at most limit bytes then, and reports whether it did.
func writeWithin(b *strings.Builder, limit int, s string) bool {
	if b.Len()+len(s) > limit {
		return false
	}
	b.WriteString(s)
	return true
}

// escape returns as much of s as has room in a cell, as text.
func escape(s string) string { return text.Markdown(text.Cut(text.Line(s), maxCell)) }

// cell returns a text that is Markdown already for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// code returns as much of s as has room in a cell, as a code span.
func code(s string) string { return text.Code(text.Cut(text.Line(s), maxCell)) }

// block returns as much of s as has room, as a code block.
func block(s string) string { return text.Block(text.Cut(text.Lines(s), maxFold)) }
