package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

func newRolloutDiagnose() *cobra.Command {
	o := rolloutOptions{output: formats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Say why nodes and pools do not move, and what to type",
		Long: `diagnose follows, for each node and pool that is held up, the chain from the symptom
to the cause as far as the objects of the cluster show it, each link with its evidence,
and names remedies as commands, the safest first. Nothing is changed.

Exit code 0: nothing is held up, as far as is known. 1: something is. 2: that cannot
be told, or wrong usage.`,
		Example: `  mirrorset-guard rollout diagnose
  mirrorset-guard rollout diagnose --from must-gather.tar.gz`,
		Args: cobra.NoArgs,
		RunE: runs(o.reading(o.runDiagnose)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runDiagnose(ctx context.Context, s streams, view *rolloutView) error {
	set, err := view.source.Mirrors(ctx)
	if err != nil {
		return err
	}
	d := status.Diagnose(view.Input, set)
	d.Notes = append(d.Notes, view.problems...)
	if o.output.format == "table" {
		err = printDiagnosis(s.out, d)
	} else {
		err = o.output.write(s.out, d)
	}
	if err == nil && len(d.Findings) > 0 {
		return errDenied
	}
	return err
}

func printDiagnosis(w io.Writer, d status.Diagnosis) error {
	var b strings.Builder
	if len(d.Findings) == 0 {
		b.WriteString("Nothing is held up, as far as is known.\n")
	}
	for i, f := range d.Findings {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", f.Chain[0])
		for _, link := range f.Chain[1:] {
			writeLines(&b, wrapped("because "+link, tableWidth-2*margin), margin)
		}
		if f.Unexplained {
			writeLines(&b, []string{"why that is so is not known"}, margin)
		}
		writeLines(&b, []string{"What can be done, the safest first:"}, margin)
		for _, r := range f.Remedies {
			writeLines(&b, []string{text.Line(r.Command)}, 2*margin)
			writeLines(&b, wrapped(text.Line(r.Effect), tableWidth-3*margin), 3*margin)
		}
	}
	printNotes(&b, d.Notes)
	_, err := io.WriteString(w, b.String())
	return err
}
