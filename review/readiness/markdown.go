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
	fmt.Fprintf(&b, "## %s: %s\n\n%s\n\n%s\n", r.State(), text.Markdown(r.Title()), text.Markdown(r.found()), r.Summary())
	open := slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return i.State == Ready })
	if len(open) > 0 {
		b.WriteString("\n| level | image | state | reason |\n|---|---|---|---|\n")
		for _, i := range open {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", i.level(), text.Markdown(i.Title()), i.State, text.Markdown(i.reason()))
		}
	}
	for _, i := range open[:min(len(open), maxTold)] {
		fmt.Fprintf(&b, "\n%s: %s\n", text.Markdown(i.Title()), text.Code(i.Ref))
		for _, f := range i.Findings {
			markdownList(&b, append([]string{f.Rule + ": " + f.Reason}, f.Detail...), text.Markdown)
		}
	}
	if more := len(open) - maxTold; more > 0 {
		fmt.Fprintf(&b, "\nand %s more: -o json has all.\n", text.Number(more))
	}
	fmt.Fprintf(&b, "\nGPG signature: %s: %s\n", r.Signature.State, text.Markdown(r.Signature.Reason))
	markdownList(&b, r.Signature.Detail, text.Markdown)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\n%s: %s\n", p.State, text.Markdown(p.Reason))
		markdownList(&b, p.Detail, text.Markdown)
	}
	if title, commands := r.remedies(); len(commands) > 0 {
		fmt.Fprintf(&b, "\n%s:\n", title)
		markdownList(&b, commands, text.Code)
	}
	b.WriteString("\nNot checked:\n")
	markdownList(&b, r.unchecked(), text.Markdown)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", text.Markdown(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownList writes lines as a list, which begins after an empty line.
func markdownList(b *strings.Builder, lines []string, as func(string) string) {
	for i, line := range lines {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s\n", as(line))
	}
}
