package inspect

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// releaseOptions are the choices of the command release.
type releaseOptions struct {
	cli.ReviewFlags
	outputs cli.Outputs
	timeout time.Duration
}

func newRelease() *cobra.Command {
	o := releaseOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "junit", "markdown", "html")}
	cmd := &cobra.Command{
		Use:   "release VERSION",
		Short: "Ask whether nodes could pull a release, before the cluster is updated to it",
		Long: `release judges by the configuration in force whether nodes, and the operator that updates the
cluster, could pull all of a release and would accept its signatures. VERSION is a version
that ClusterVersion offers, next (the newest that it recommends), desired (the one that was
chosen), or the reference of a release image.

plan --release prints what to copy for it, sync --release copies it, and pin --release has
the nodes hold it before the update.

Exit code 0: READY. 1: NOT READY. 2: UNKNOWN, or wrong usage.`,
		Example: `  mirrorset-guard release 4.21.3
  mirrorset-guard release next
  mirrorset-guard release desired --from cluster.yaml -o json -o html=release.html`,
		Args: cli.OneArg("a version, next, desired, or the reference of a release image"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cli.StreamsOf(cmd), args[0])
		},
	}
	o.AddInForce(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	addTimeout(cmd.Flags(), &o.timeout)
	return cmd
}

// addRelease adds the flag of a release to judge instead of a change, or beside the configuration in force.
func addRelease(flags *pflag.FlagSet, release *string, does string) {
	flags.StringVar(release, "release", "", does+": a version, next, desired, or the reference of a release image, as for the command release")
}

func (o *releaseOptions) run(ctx context.Context, streams cli.Streams, asked string) error {
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	a, err := openRelease(ctx, streams, &o.ReviewFlags, asked)
	if err != nil {
		return err
	}
	defer a.world.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := a.judge(ctx)
	if err != nil {
		return err
	}
	about := o.World.Page("mirrorset-guard release " + asked + o.Again() + " -o json")
	about.Exit = [...]string{readiness.Unknown: "2: not all could be determined", readiness.NotReady: "1: not ready", readiness.Ready: "0: ready"}[r.State()]
	if err := cli.Print(ctx, streams, targets, cli.Answer{Answer: r.Answer, Page: about, Document: func() any { return r.Document() }}); err != nil {
		return err
	}
	return cli.ReleaseError(r)
}

// A candidateRelease is a release with the world in which it is judged.
type candidateRelease struct {
	world  *environment.World
	judged judge.World
	asked  string
	choice target.Release
}

// openRelease opens the world and finds the release there. The world is to be closed.
func openRelease(ctx context.Context, streams cli.Streams, flags *cli.ReviewFlags, asked string) (*candidateRelease, error) {
	opened, err := flags.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	w := opened.World
	judged := judge.World{Cluster: w.Cluster, Reviewer: &opened.Reviewer, Client: w.Registries.Client, Flags: flags.Again()}
	choice, err := target.Find(w.Cluster.RolloutObjects().Version, asked)
	if err != nil {
		w.Close()
		return nil, cli.AboutRelease(asked, err)
	}
	return &candidateRelease{w, judged, asked, choice}, nil
}

func (c *candidateRelease) judge(ctx context.Context) (*readiness.Readiness, error) {
	r, err := judge.Release(ctx, c.judged, c.choice)
	if err != nil {
		return nil, cli.AboutRelease(c.asked, err)
	}
	return r, nil
}
