package records

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/replay"
)

func (o *replayOptions) print(w io.Writer, r v1alpha1.Replay) error {
	if o.output.Format != "table" {
		return o.output.Write(w, r)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Changes) > 0 {
		fmt.Fprintln(table, "TIME\tUSER\tOPERATION\tOBJECT\tTHEN\tNOW\tDIFFERENCE")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Time.UTC().Format(time.RFC3339), shortLine(c.User), operationCell(&auditv1alpha1.Decision{Operation: c.Operation, DryRun: c.DryRun}),
			shortLine(input.ObjectName(c.Object)), text.Line(c.Then), cmp.Or(c.Now, "-"), difference(&c))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	s := r.Summary
	_, err := fmt.Fprintf(w, "%s: %d decided as then, %d differently, %d without an answer\n%s\n",
		text.Count(len(r.Changes), "change"), s.Same, s.Differ, s.NoAnswer, factsLine(r.Facts))
	return err
}

// difference says in a few words what differs.
func difference(c *v1alpha1.ReplayedChange) string {
	if c.Error != "" {
		return "no answer: " + text.Cut(text.Line(c.Error), maxError)
	}
	var parts []string
	if len(c.Added) > 0 {
		parts = append(parts, "now also "+rulesLine(c.Added))
	}
	if len(c.Removed) > 0 {
		parts = append(parts, "no longer "+rulesLine(c.Removed))
	}
	return cmp.Or(strings.Join(parts, "; "), "-")
}

// maxError is room for a chain of wrapped errors.
const maxError = 300

func factsLine(facts string) string {
	if facts == replay.Recorded {
		return "Registries were not asked: what they said counts as it was recorded, and is as old as the records."
	}
	return "Registries were asked now, from this machine; nodes may have other proxies, CAs and name servers."
}
