package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
)

// replayResults are what replay answers, as a document.
type replayResults struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Facts is "now" or "recorded".
	Facts   string        `json:"facts"`
	Changes []replayed    `json:"changes"`
	Summary replaySummary `json:"summary"`
}

// A replaySummary counts changes.
type replaySummary struct {
	Same     int `json:"same"`
	Differ   int `json:"differ"`
	NoAnswer int `json:"noAnswer"`
}

func (r *replayResults) add(c replayed) {
	r.Changes = append(r.Changes, c)
	switch {
	case c.Error != "":
		r.Summary.NoAnswer++
	case c.Differs:
		r.Summary.Differ++
	default:
		r.Summary.Same++
	}
}

// A replayed is a change with what was decided then, and what would be now.
type replayed struct {
	Time      time.Time    `json:"time"`
	UID       string       `json:"uid"`
	User      string       `json:"user"`
	Operation string       `json:"operation"`
	DryRun    bool         `json:"dryRun"`
	Object    audit.Object `json:"object"`
	// Then and Now are verdicts; Now is "" if there is no answer.
	Then    string `json:"then"`
	Now     string `json:"now"`
	Differs bool   `json:"differs"`
	// Added and Removed are findings by rule and severity that only one of them has, or has more
	// of.
	Added   []audit.RuleCount `json:"added,omitempty"`
	Removed []audit.RuleCount `json:"removed,omitempty"`
	// Message is what refuses the change now, or would without the mode.
	Message string `json:"message,omitempty"`
	// Error is why there is no answer.
	Error string `json:"error,omitempty"`

	rules   []audit.RuleCount
	verdict string // Then, without an override
}

func newReplayed(d *audit.Decision) replayed {
	r := replayed{
		Time: d.Time, UID: d.UID, User: d.User.Name, Operation: d.Operation, DryRun: d.DryRun, Object: d.Object,
		Then: d.Verdict, rules: d.Rules, verdict: d.Verdict,
	}
	if d.IsOverridden() {
		r.verdict = cmp.Or(d.Override.Of, "denied")
	}
	return r
}

// compare sets what would be decided now.
func (c *replayed) compare(record review.Record) {
	c.Now = "allowed"
	switch {
	case !record.Verdict.Allowed:
		c.Now, c.Message = "denied", record.Denial()
	case record.Verdict.Waived():
		c.Now, c.Message = "waived", record.Waived()
	}
	var now audit.Decision
	now.Rest(record, 0)
	c.Added, c.Removed = more(now.Rules, c.rules), more(c.rules, now.Rules)
	c.Differs = c.Now != c.verdict
}

// more returns by how much a has more findings of each kind than b.
func more(a, b []audit.RuleCount) []audit.RuleCount {
	var out []audit.RuleCount
	for _, c := range a {
		i := slices.IndexFunc(b, func(o audit.RuleCount) bool { return o.Rule == c.Rule && o.Severity == c.Severity })
		if i >= 0 {
			c.Count -= b[i].Count
		}
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	return out
}

func (o *replayOptions) print(w io.Writer, r replayResults) error {
	if o.output.format != "table" {
		return o.output.write(w, r)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Changes) > 0 {
		fmt.Fprintln(table, "TIME\tUSER\tOPERATION\tOBJECT\tTHEN\tNOW\tDIFFERENCE")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Time.UTC().Format(time.RFC3339), shortLine(c.User), operationCell(&audit.Decision{Operation: c.Operation, DryRun: c.DryRun}),
			shortLine(input.ObjectName(c.Object)), text.Line(c.Then), cmp.Or(c.Now, "-"), c.difference())
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
func (c *replayed) difference() string {
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
	if facts == factsRecorded {
		return "Registries were not asked: what they said counts as it was recorded, and is as old as the records."
	}
	return "Registries were asked now, from this machine; nodes may have other proxies, CAs and name servers."
}
