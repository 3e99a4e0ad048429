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
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
)

// A decisionTable prints decisions a page at a time, and keeps no more of them. Columns
// are as wide as the page needs.
type decisionTable struct {
	to    io.Writer
	page  *tabwriter.Writer
	rows  int
	pages int
}

// pageRows is how many rows share their widths.
const pageRows = 1000

func (t *decisionTable) add(r input.Record) error {
	if t.page == nil {
		t.page = tabwriter.NewWriter(t.to, 0, 0, 2, ' ', 0)
		if t.pages == 0 {
			fmt.Fprintln(t.page, "TIME\tUSER\tOPERATION\tOBJECT\tVERDICT\tBECAUSE")
		}
	}
	d := &r.Decision
	fmt.Fprintf(t.page, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Time.UTC().Format(time.RFC3339), userCell(d.User), operationCell(d),
		shortLine(input.ObjectName(d.Object)), text.Line(d.Verdict), because(d))
	if t.rows++; t.rows%pageRows == 0 {
		return t.flush()
	}
	return nil
}

func (t *decisionTable) flush() error {
	if t.page == nil {
		return nil
	}
	page := t.page
	t.page, t.pages = nil, t.pages+1
	return page.Flush()
}

// maxCell bounds cells whose content comes from users.
const maxCell = 100

func shortLine(s string) string { return text.Cut(text.Line(s), maxCell) }

func userCell(u auditv1alpha1.User) string {
	if u.Impersonator != "" {
		return shortLine(u.Name) + " (by " + shortLine(u.Impersonator) + ")"
	}
	return shortLine(u.Name)
}

func operationCell(d *auditv1alpha1.Decision) string {
	cell := cmp.Or(shortLine(d.Operation), "-")
	if d.DryRun {
		cell += " (dry run)"
	}
	return cell
}

// because says in a few words why the verdict is what it is.
func because(d *auditv1alpha1.Decision) string {
	switch {
	case d.Verdict == "confirmed":
		return "the override is in force"
	case d.Verdict == "unconfirmed":
		return "the override never came into force"
	case d.IsOverridden():
		return "override: " + shortLine(d.Override.Reason)
	case len(d.Rules) > 0:
		return rulesLine(d.Rules)
	case d.Verdict == "allowed" || d.Verdict == audit.Skipped:
		return "-"
	default:
		return shortLine(d.Reason)
	}
}

// rulesLine names rules, with how often they objected.
func rulesLine(rules []auditv1alpha1.RuleCount) string {
	var parts []string
	for _, r := range rules {
		part := shortLine(r.Rule)
		if r.Severity != "" && r.Severity != "deny" {
			part += " (" + shortLine(r.Severity) + ")"
		}
		if r.Count > 1 {
			part += " " + text.Number(r.Count)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// maxSummed is how many names of a kind a summary has.
const maxSummed = 10

func printSummary(w io.Writer, s v1alpha1.AuditSummary) error {
	var b strings.Builder
	if s.Decisions == 0 {
		b.WriteString("No decision matches.\n")
	} else {
		fmt.Fprintf(&b, "\n%s from %s to %s: %s\n", text.Count(s.Decisions, "decision"), s.First.UTC().Format(time.RFC3339), s.Last.UTC().Format(time.RFC3339), counted(s.Verdicts))
		fmt.Fprintf(&b, "by user: %s\nby object: %s\n", counted(s.Users), counted(s.Objects))
		if len(s.Rules) > 0 {
			fmt.Fprintf(&b, "by rule: %s\n", counted(s.Rules))
		}
		if s.DryRuns > 0 {
			fmt.Fprintf(&b, "dry runs: %s\n", text.Number(s.DryRuns))
		}
	}
	if s.Confirmed+s.Unconfirmed > 0 {
		fmt.Fprintf(&b, "overrides: in force %d, never in force %d\n", s.Confirmed, s.Unconfirmed)
	}
	if s.Lost > 0 {
		fmt.Fprintf(&b, "lost: %s\n", text.Count(s.Lost, "record"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func counted(counts []v1alpha1.AuditCount) string {
	var parts []string
	for _, c := range counts {
		name := shortLine(c.Name)
		if c.Name == "" {
			name = "(others)"
		}
		parts = append(parts, fmt.Sprintf("%s %s", name, text.Number(c.Decisions)))
	}
	return text.Names(parts, maxSummed)
}
