package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

func newRolloutVerify() *cobra.Command {
	o := rolloutOptions{outputs: cli.SeveralFormats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check whether every node has what the mirror objects ask for",
		Long: `verify compares registries.conf, policy.json and registries.d in the rendered config that
each node has with what the mirror objects, image policies and the lists of Image cluster
in force ask for, lists the images that pods fail to pull with
the route that their nodes have now, and says what is left to do.

Exit code 0: all is well. 1: it is not. 2: not determined, or wrong usage.`,
		Example: `  mirrorset-guard rollout verify
  mirrorset-guard rollout verify --from must-gather/ -o yaml`,
		Args: withoutArguments,
		RunE: cli.Runs(o.reading(o.runVerify)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runVerify(ctx context.Context, s cli.Streams, targets []cli.Target, view *environment.Rollout) error {
	set, err := view.Source.Mirrors(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the mirror objects could not be read: this requires the rights of the ClusterRole cluster-reader: %w", err)
	case err != nil:
		return err
	}
	v := verify.Verify(verify.Input{Input: view.Input, Mirrors: set, Incomplete: view.Problems})
	for i := range v.Left {
		v.Left[i].Command = s.Program.In(v.Left[i].Command)
	}
	err = cli.Print(ctx, s, targets, cli.Answer{
		Answer:   func() *answer.Answer { return rollouts.VerificationAnswer(v) },
		Document: func() any { return rollouts.VerificationDocument(v) },
	})
	switch {
	case err != nil:
		return err
	case v.Result == verify.NotWell:
		return cli.ErrDenied
	case v.Result == verify.Unknown:
		return errors.New("not determined whether all is well")
	default:
		return nil
	}
}
