package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

// checkOptions are the choices of the command check.
type checkOptions struct {
	world   cli.WorldFlags
	change  cli.ChangeFlags
	outputs cli.Outputs
	policy  cli.PolicyFlags
	config  cli.ConfigFlags
	by      cli.RequesterFlags
	timeout time.Duration
	// simulate makes the table show each step of the rollout.
	simulate bool
}

func newCheck() *cobra.Command {
	o := checkOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "junit", "markdown", "html", "narrowed")}
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Review a change before it is made, as the webhook would",
		Long: `check reviews the change in -f as the webhook would: against the cluster of the
kubeconfig, or against a dump of one (--from). All documents in all -f are one
change. Nothing is changed, and no webhook needs to be installed.

One line tells what the change does to the nodes; --simulate shows the rollout
step by step, as MCO, the eviction API, the scheduler and the kubelets would make it.

-o narrowed prints the objects with sources narrowed to what their mirrors hold. -o
markdown is for a merge request, -o html a page to look at and to pass on. Several formats are written at once as -o FORMAT=FILE,
given several times; files are written only if there is a verdict.

With --config, the settings are those of the file, which may be the one that the webhook
has. Its mode counts too: in mode warn or audit, a change that mode enforce would refuse
is admitted, and the report says so.

Exit code 0: would be admitted, possibly with warnings. 1: would be denied. 2: no
verdict, or wrong usage.`,
		Example: `  mirrorset-guard check -f itms.yaml
  mirrorset-guard check -f itms.yaml --simulate
  mirrorset-guard check -f itms.yaml --delete
  mirrorset-guard check -f mirrors/ --from cluster.yaml -o json
  mirrorset-guard check -f mirrors/ -o table -o junit=report.xml -o html=report.html`,
		Args: cobra.NoArgs,
		RunE: cli.Runs(o.run),
	}
	o.world.AddFlags(cmd.Flags())
	o.change.AddFlags(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	o.policy.AddFlags(cmd.Flags())
	o.config.AddFlags(cmd.Flags())
	o.by.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.simulate, "simulate", false, "show the rollout step by step")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to ask registries before answering with what is known")
	return cmd
}

func (o *checkOptions) run(ctx context.Context, streams cli.Streams) error {
	if len(o.change.Files) == 0 {
		return errors.New("nothing to check: name the change with -f FILE, -f FOLDER or -f -")
	}
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	configured, err := o.config.Read(&o.policy, &o.world.Registries)
	if err != nil {
		return err
	}
	o.world.Registries.Configured = &configured
	by, err := o.by.Requester()
	if err != nil {
		return err
	}
	change, err := o.change.Begin(streams)
	if err != nil {
		return err
	}
	w, err := o.world.Open(ctx, streams)
	if err != nil {
		return change.Unless(err)
	}
	defer w.Close()
	edit, notes, err := change.On(ctx, w)
	if err != nil {
		return err
	}
	reviewer := w.Reviewer()
	reviewer.Settings = configured.Settings
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	record, err := reviewer.Review(ctx, edit, by)
	if err != nil {
		return err
	}
	record.Notes = append(record.Notes, notes...)
	if note := o.by.Note(configured.Settings); note != "" {
		record.Notes = append(record.Notes, note)
	}
	if record.Verdict.Allowed {
		note, err := reviewer.StepNote(ctx, edit, by)
		if err != nil {
			return err
		}
		if note != "" {
			record.Notes = append(record.Notes, note)
		}
	}
	for _, t := range targets {
		if err := t.Print(streams.Out, func(w io.Writer) error { return o.print(ctx, w, t.Output, &reviewer, record, by) }); err != nil {
			return err
		}
	}
	if !record.Verdict.Allowed {
		return cli.ErrDenied
	}
	return nil
}

func (o *checkOptions) print(ctx context.Context, w io.Writer, output cli.Output, reviewer *review.Reviewer, r review.Record, by policy.Requester) error {
	switch output.Format {
	case "table":
		return printReport(w, r, o.simulate)
	case "junit":
		return r.WriteJUnit(w)
	case "markdown":
		return r.WriteMarkdown(w)
	case "html":
		about := o.world.PageContext("mirrorset-guard check -o json")
		about.Requester = cli.RequesterText(by)
		return page.WriteReview(w, r.Document(), about)
	case "narrowed":
		return printNarrowed(ctx, w, reviewer, r, by)
	default:
		return output.Write(w, r.Document())
	}
}

// printNarrowed prints the narrowed objects with what a review of them says.
func printNarrowed(ctx context.Context, w io.Writer, reviewer *review.Reviewer, record review.Record, by policy.Requester) error {
	reviewed, err := reviewer.ReviewNarrowed(ctx, record, by)
	if err != nil {
		return err
	}
	return review.WriteNarrowed(w, record, reviewed)
}

func printReport(w io.Writer, r review.Record, simulate bool) error {
	style := cli.StyleOf(w)
	report := r.Report()
	if simulate {
		report += r.Simulation()
	}
	if style.Colours() {
		report = withSummary(style.Paint(report), r.Verdict.Findings)
	}
	if _, err := io.WriteString(w, report); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nNote: %s\n", text.Line(note))
	}
	if looked := r.Verdict.Counts.Looked(); looked != "" {
		fmt.Fprintf(w, "\n%s\n", looked)
	}
	_, err := fmt.Fprintf(w, "\nRegistries were asked from this machine; nodes may have other proxies, CAs and name servers.\n")
	return err
}
