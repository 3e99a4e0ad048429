package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// A table prints results as they arrive, and aligned at the end.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer) *table {
	t := &table{tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprintln(t.w, "delay\timages\trequests\tconnections\t429\tseconds\tx floor\t  who")
	return t
}

func (t *table) add(delay time.Duration, images int, who string, r result, floor time.Duration) {
	if r.scaled {
		who += " (scaled from fewer)"
	}
	fmt.Fprintf(t.w, "%v\t%d\t%d\t%d\t%d\t%.4f\t%.2f\t  %s\n", delay, images,
		r.requests, r.connections, r.refused, r.took.Seconds(), float64(r.took)/float64(floor), who)
}

func (t *table) flush() { t.w.Flush() } //nolint:errcheck // standard output
