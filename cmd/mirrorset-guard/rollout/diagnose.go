package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/review/diagnosis"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
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
	about := cli.PageOf(o.world.from, &o.world.cluster, "mirrorset-guard rollout diagnose -o json")
	switch {
	case len(d.HoldUps) > 0:
		about.Exit, err = "1: something is held up", cli.ErrDenied
	case len(d.Unknown) > 0:
		about.Exit, err = "2: not determined", errors.New("not determined whether something is held up")
	default:
		about.Exit = "0: nothing is held up"
	}
	return cmp.Or(cli.Print(ctx, s, targets, cli.Answer{
		Answer: func() *answer.Answer { return rollouts.DiagnosisAnswer(d) }, Page: about, Document: func() any { return rollouts.DiagnosisDocument(d) },
	}), err)
}
