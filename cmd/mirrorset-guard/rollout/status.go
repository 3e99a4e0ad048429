package rollout

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// rolloutOptions are the choices of the commands rollout status, verify and diagnose.
type rolloutOptions struct {
	world   rolloutWorld
	outputs cli.Outputs
}

func (o *rolloutOptions) addFlags(flags *pflag.FlagSet) {
	o.world.addFlags(flags)
	o.outputs.AddFlags(flags)
}

// reading returns run as it is called with the formats and what was read of the cluster or dump.
func (o *rolloutOptions) reading(run func(context.Context, cli.Streams, []cli.Target, *environment.Rollout) error) func(context.Context, cli.Streams) error {
	return func(ctx context.Context, s cli.Streams) error {
		targets, err := o.outputs.Targets()
		if err != nil {
			return err
		}
		view, err := o.world.read(ctx, s)
		if err != nil {
			return err
		}
		defer view.Close()
		return run(ctx, s, targets, view)
	}
}

// newRolloutStatus returns the command rollout status, which rollout alone is too.
func newRolloutStatus(use string) *cobra.Command {
	o := rolloutOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "html")}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Show which nodes wait, and for what",
		Long: `status shows how far the Machine Config Operator has come: the operator's own status,
each pool with the changes for its nodes, and each node that is not done with its
state, its drain and the user who cordoned it. It reads a cluster, with the rights of the ClusterRole cluster-reader, or a must-gather (--from).

It does not wait for the end of a rollout, as kubectl rollout status does: rollout watch does.

Exit code 0: status printed. 2: the status could not be determined, or wrong usage.`,
		Example: `  mirrorset-guard rollout
  mirrorset-guard rollout status --from must-gather.tar.gz -o json`,
		Args: withoutArguments,
		RunE: cli.Runs(o.reading(o.runStatus)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runStatus(ctx context.Context, s cli.Streams, targets []cli.Target, view *environment.Rollout) error {
	found := status.Of(view.Input)
	found.Notes = append(found.Notes, view.Problems...)
	return cli.Print(ctx, s, targets, cli.Answer{
		Answer:   func() *answer.Answer { return rollouts.StatusAnswer(found, view.Now) },
		Page:     cli.PageOf(o.world.from, &o.world.cluster, "mirrorset-guard rollout status -o json"),
		Document: func() any { return rollouts.StatusDocument(found) },
	})
}
