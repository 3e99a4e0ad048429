package inspect

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	// manyFindings is how many fit on a screen, and need no summary.
	manyFindings = 10
	// summaryBar is the width of a bar.
	summaryBar = 24
)

// withSummary puts a table of the findings by rule behind the first line of a report for a
// terminal, if there are many.
func withSummary(report string, findings []policy.Finding) string {
	if len(findings) <= manyFindings {
		return report
	}
	first, rest, _ := strings.Cut(report, "\n")
	return first + "\n\n" + summary(findings) + rest
}

func summary(findings []policy.Finding) string {
	type key struct {
		severity policy.Severity
		rule     string
	}
	var order []key // that of the findings: the most severe first
	counts := map[key]int{}
	for _, f := range findings {
		k := key{f.Severity, f.Rule}
		if counts[k]++; counts[k] == 1 {
			order = append(order, k)
		}
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range order {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", k.severity, k.rule, text.Number(counts[k]), cli.Bar(counts[k], len(findings), summaryBar))
	}
	_ = table.Flush() // into a strings.Builder
	return b.String()
}
