package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printTable prints what was measured. Everybody's start is compared with the faster
// of the bare lists before and after it.
func printTable(out io.Writer, s size, reports []report) error {
	fmt.Fprintf(out, "%d pods, %d workload objects, %d images\n\n", s.pods, s.workloads, s.images)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "who\tready\tx list\theap MB\tRSS MB\tpeak MB\tdelay\timages\theap after churn MB\t")
	for i, r := range reports {
		fmt.Fprintf(w, "%s\t%.1fs\t%.2f\t%.1f\t%.0f\t%.0f\t%s\t%s\t%s\t\n", r.Role, r.Ready.Seconds(),
			r.Ready.Seconds()/floor(reports, i).Seconds(), mb(r.Heap), mb(r.RSS), mb(r.Peak),
			orDash(r.Delay > 0, r.Delay.Round(time.Millisecond)), orDash(r.Images > 0, r.Images),
			orDash(r.Churned > 0, fmt.Sprintf("%.1f", mb(r.Churned))))
	}
	return w.Flush()
}

// floor returns the faster of the lists next to report i.
func floor(reports []report, i int) time.Duration {
	var fastest time.Duration
	for _, step := range []int{-1, 1} {
		for k := i; k >= 0 && k < len(reports); k += step {
			if reports[k].Role == "list" {
				if fastest == 0 || reports[k].Ready < fastest {
					fastest = reports[k].Ready
				}
				break
			}
		}
	}
	return fastest
}

func mb(bytes uint64) float64 { return float64(bytes) / 1e6 }

func orDash(set bool, value any) string {
	if !set {
		return "-"
	}
	return fmt.Sprint(value)
}
