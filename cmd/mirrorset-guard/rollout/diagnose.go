package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/diagnosis"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// diagnoseOptions are the choices of the command rollout diagnose.
type diagnoseOptions struct {
	rolloutOptions
	ask askFlags
}

func newRolloutDiagnose() *cobra.Command {
	o := diagnoseOptions{rolloutOptions: rolloutOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "html")}}
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Explain why nodes and pools do not move, and suggest commands",
		Long: `diagnose follows, for each node and pool that is held up, the chain from the symptom
to the cause, each link with its evidence, and names remedies as commands, the safest
first. In a live cluster it also sends dry-run evictions, and asks the registries of
images that nodes cannot pull. Nothing is changed.

Exit code 0: nothing is held up. 1: something is. 2: not determined, or wrong
usage.`,
		Example: `  mirrorset-guard rollout diagnose
  mirrorset-guard rollout diagnose --offline -o json
  mirrorset-guard rollout diagnose --from must-gather.tar.gz`,
		Args: withoutArguments,
		RunE: cli.Runs(func(ctx context.Context, s cli.Streams) error {
			if o.ask.timeout <= 0 {
				return fmt.Errorf("--timeout %s: want more than 0; --offline asks nothing", o.ask.timeout)
			}
			return o.reading(o.runDiagnose)(ctx, s)
		}),
	}
	o.addFlags(cmd.Flags())
	o.ask.addFlags(cmd.Flags())
	return cmd
}

func (o *diagnoseOptions) runDiagnose(ctx context.Context, s cli.Streams, targets []cli.Target, view *environment.Rollout) error {
	d, err := diagnosis.Diagnose(ctx, view, o.ask.options())
	if err != nil {
		return err
	}
	d.Unknown = append(d.Unknown, view.Problems...)
	for i := range d.HoldUps {
		for k := range d.HoldUps[i].Remedies {
			r := &d.HoldUps[i].Remedies[k]
			r.Command = s.Program.In(r.Command)
		}
	}
	err = printEach(ctx, s, targets, func(w io.Writer, output cli.Output) error {
		switch output.Format {
		case "table":
			return printDiagnosis(w, d)
		case "html":
			return page.WriteDiagnosis(w, rollouts.DiagnosisDocument(d), cli.PageContext(o.world.from, &o.world.cluster, "mirrorset-guard rollout diagnose -o json"))
		default:
			return output.Write(w, rollouts.DiagnosisDocument(d))
		}
	})
	switch {
	case err != nil:
		return err
	case len(d.HoldUps) > 0:
		return cli.ErrDenied
	case len(d.Unknown) > 0:
		return errors.New("not determined whether something is held up")
	default:
		return nil
	}
}

// maxHoldUps is how many are printed: JSON has all.
const maxHoldUps = 20

func printDiagnosis(w io.Writer, d status.Diagnosis) error {
	var b strings.Builder
	switch {
	case len(d.HoldUps) == 0 && len(d.Unknown) == 0:
		b.WriteString("Nothing is held up.\n")
	case len(d.HoldUps) == 0:
		b.WriteString("Nothing that could be read is held up.\n")
	}
	for i := range d.HoldUps[:min(len(d.HoldUps), maxHoldUps)] {
		if i > 0 {
			b.WriteString("\n")
		}
		printHoldUp(&b, &d.HoldUps[i])
	}
	if more := len(d.HoldUps) - maxHoldUps; more > 0 {
		fmt.Fprintf(&b, "\nThere are %s, which -o json has.\n", text.Plural(more, "more finding", "more findings"))
	}
	printList(&b, "Not known", d.Unknown)
	printNotes(&b, d.Notes)
	_, err := io.WriteString(w, cli.StyleOf(w).Paint(b.String()))
	return err
}

func printHoldUp(b *strings.Builder, f *status.HoldUp) {
	fmt.Fprintf(b, "%s\n", f.Chain.Symptom)
	if others := f.Others(); others != "" {
		cli.WriteLines(b, cli.Wrapped(others, cli.TableWidth-2*cli.Margin), cli.Margin)
	}
	for _, link := range f.Chain.Links {
		cli.WriteLines(b, cli.Wrapped("because "+link, cli.TableWidth-2*cli.Margin), cli.Margin)
	}
	if f.Unexplained {
		cli.WriteLines(b, []string{"the reason is not known"}, cli.Margin)
	}
	cli.WriteLines(b, []string{"What can be done, the safest first:"}, cli.Margin)
	for _, r := range f.Remedies {
		cli.WriteLines(b, []string{text.Line(r.Command)}, 2*cli.Margin)
		cli.WriteLines(b, cli.Wrapped(text.Line(r.Effect), cli.TableWidth-3*cli.Margin), 3*cli.Margin)
	}
}
