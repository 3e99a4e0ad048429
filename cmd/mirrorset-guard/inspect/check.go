package inspect

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/sarif"
)

// checkOptions are the choices of the command check.
type checkOptions struct {
	candidateFlags
	outputs cli.Outputs
	// simulate makes the table show each step of the rollout.
	simulate bool
}

func newCheck() *cobra.Command {
	o := checkOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "junit", "markdown", "html", "sarif", "narrowed")}
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Review a change before it is made, as the webhook would",
		Long: `check reviews the change in -f as the webhook would: against the cluster of the
kubeconfig, or against a dump of one (--from). All documents in all -f are one
change. Nothing is changed, and no webhook needs to be installed.

One line tells what the change does to the nodes; --simulate shows the rollout
step by step, as MCO, the eviction API, the scheduler and the kubelets would make it.

-o narrowed prints the objects with sources narrowed to what their mirrors hold, and the
mirror sets that are missing beside them. -o markdown is for a merge request, -o sarif has
it annotated at the lines that are wrong, and -o html is a page to pass on. Several
formats are written at once as -o FORMAT=FILE, only if there is a verdict.

With --config, the settings are those of the file, which may be the one that the webhook
has. Its mode counts too: in mode warn or audit, a change that mode enforce would refuse
is admitted, and the report says so.

Exit code 0: would be admitted, possibly with warnings. 1: would be denied. 2: no
verdict, or wrong usage.`,
		Example: `  mirrorset-guard check -f itms.yaml
  mirrorset-guard check -f itms.yaml --delete
  mirrorset-guard check -f idms.yaml --delete-file icsp.yaml
  mirrorset-guard check -f mirrors/ --from cluster.yaml -o json
  mirrorset-guard check -f working-dir/cluster-resources --assume working-dir/dry-run/mapping.txt
  mirrorset-guard check -f mirrors/ -o table -o junit=report.xml -o html=report.html`,
		Args: cli.NoArgs,
		RunE: cli.Runs(o.run),
	}
	o.AddFlags(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.simulate, "simulate", false, "show the rollout step by step")
	return cmd
}

func (o *checkOptions) run(ctx context.Context, streams cli.Streams) error {
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	c, err := o.open(ctx, streams)
	if err != nil {
		return err
	}
	defer c.World.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	record, err := c.Reviewer.Review(ctx, c.Edit, c.By)
	if err != nil {
		return err
	}
	if err := o.addNotes(ctx, c, &record); err != nil {
		return err
	}
	said, about := record.Answer, o.World.Page("mirrorset-guard check -o json")
	if o.simulate {
		said = record.AnswerWithSteps
	}
	about.Requester, about.Exit = cli.RequesterText(c.By), "0: would be admitted"
	if !record.Verdict.Allowed {
		about.Exit = "1: would be denied"
	}
	err = cli.Print(ctx, streams, targets, cli.Answer{
		Answer: said, Page: about, Document: func() any { return record.Document() },
		Formats: map[string]func(io.Writer) error{
			"narrowed": func(w io.Writer) error { return printNarrowed(ctx, w, c, record) },
			"sarif":    func(w io.Writer) error { return sarif.Write(w, record, c.Change, cli.Version) },
		},
	})
	if err == nil && !record.Verdict.Allowed {
		return cli.ErrDenied
	}
	return err
}

// addNotes adds to record the facts about the change beside the review.
func (o *checkOptions) addNotes(ctx context.Context, c *candidate, record *review.Record) error {
	record.Notes = slices.Concat(record.Notes, c.Notes, plan.OCMirrorNotes(record.Change))
	if counts := record.Verdict.Counts; c.mapping != nil && counts.Assumed+counts.MovedAssumed == 0 {
		note := "nothing is assumed: no image is missing at a place to which " + o.assume + " copies it"
		if meant := c.mapping.Meant(record); meant != "" {
			note += "; images are missing at " + meant
		}
		record.Notes = append(record.Notes, note)
	}
	if !record.Verdict.Allowed {
		return nil
	}
	steps := c.Reviewer
	steps.Brought = nil // the images that the change brings are judged as a whole
	note, err := steps.StepNote(ctx, c.Edit, c.By)
	if err == nil && note != "" {
		record.Notes = append(record.Notes, note)
	}
	return err
}

// printNarrowed prints the narrowed objects with what a review of them says.
func printNarrowed(ctx context.Context, w io.Writer, c *candidate, record review.Record) error {
	record, err := c.Reviewer.WithTwins(ctx, c.Edit, record, c.By)
	if err != nil {
		return err
	}
	reviewed, err := c.Reviewer.ReviewNarrowed(ctx, record, c.By)
	if err != nil {
		return err
	}
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	return review.WriteNarrowed(w, record, reviewed)
}
