package readiness

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// WriteMarkdown writes r for a ticket or a merge request.
func (r *Readiness) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %s\n\n%s\n\n%s\n", r.State(), cell(r.Title()), cell(r.found()), r.Summary())
	open := slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return i.State == Ready })
	if len(open) > 0 {
		b.WriteString("\n| level | image | state | reason |\n|---|---|---|---|\n")
		for _, i := range open {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", i.level(), cell(i.Title()), i.State, cell(i.reason()))
		}
	}
	for _, i := range open[:min(len(open), maxTold)] {
		fmt.Fprintf(&b, "\n%s: %s\n", cell(i.Title()), cell(i.Ref))
		for _, f := range i.Findings {
			markdownList(&b, append([]string{f.Rule + ": " + f.Reason}, f.Detail...))
		}
	}
	if more := len(open) - maxTold; more > 0 {
		fmt.Fprintf(&b, "\nand %s more: -o json has all.\n", text.Number(more))
	}
	fmt.Fprintf(&b, "\nGPG signature: %s: %s\n", r.Signature.State, cell(r.Signature.Reason))
	markdownList(&b, r.Signature.Detail)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\n%s: %s\n", p.State, cell(p.Reason))
		markdownList(&b, p.Detail)
	}
	if title, commands := r.remedies(); len(commands) > 0 {
		fmt.Fprintf(&b, "\n%s:\n", title)
		markdownList(&b, commands)
	}
	b.WriteString("\nNot checked:\n")
	markdownList(&b, r.unchecked())
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", cell(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownList writes lines as a list, which begins after an empty line.
func markdownList(b *strings.Builder, lines []string) {
	for i, line := range lines {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s\n", cell(line))
	}
}

// cell returns text in which nothing is Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", ">", "&gt;", "`", "'", "*", "\\*", "_", "\\_", "[", "\\[").Replace(text.Line(s))
}
