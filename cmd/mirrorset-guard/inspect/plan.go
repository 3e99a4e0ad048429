package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/copyplan"
)

// planOptions are the choices of the command plan.
type planOptions struct {
	candidateFlags
	output cli.Output
	// missing is whether to leave out what the mirrors have.
	missing bool
	// release is the release to be planned for instead of a change.
	release string
}

func newPlan() *cobra.Command {
	o := planOptions{output: cli.Formats(copyplan.Formats()...)}
	cmd := &cobra.Command{
		Use:   "plan {-f FILE | --release VERSION}",
		Short: "Print what to copy to the mirrors for a change or a release, as a tool wants it",
		Long: `plan prints what the images of a change need at the mirrors, whether it would be admitted or
not, or with --release those of a release: as a script of skopeo's commands (sh), for
oc image mirror -f (mapping), or for oc-mirror (imageset). What could not be determined
stands in comments. sync copies without a plan.

Exit code 0: all was determined. 2: not all, or wrong usage.`,
		Example: `  mirrorset-guard plan -f itms.yaml --missing > copy.sh
  mirrorset-guard plan -f itms.yaml -o imageset > imageset.yaml
  mirrorset-guard plan --release 4.21.3 --missing -o mapping`,
		Args: cli.Apart(cli.NoArgs, "release", "filename", "delete", "delete-file", "assume", "for-user", "for-group"),
		RunE: cli.Runs(o.run),
	}
	o.AddFlags(cmd.Flags())
	o.output.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.missing, "missing", false, "only what the mirrors lack")
	addRelease(cmd.Flags(), &o.release, "plan for a release instead of a change")
	return cmd
}

func (o *planOptions) run(ctx context.Context, streams cli.Streams) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.release != "" {
		return o.ofRelease(ctx, streams)
	}
	return o.ofChange(ctx, streams)
}

func (o *planOptions) ofChange(ctx context.Context, streams cli.Streams) error {
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
	plan := copyplan.Make(ctx, &c.Reviewer, record.Judged(), o.missing)
	for _, g := range record.Plan.Gaps {
		plan.Unknown = append(plan.Unknown, g.String())
	}
	if c.mapping != nil {
		plan.Notes = append(plan.Notes, c.mapping.Note())
	}
	plan.Release = copyplan.ReleaseOf(c.World.Cluster.RolloutObjects().Version, c.World.Cluster.Nodes())
	return o.print(ctx, streams.Out, &plan)
}

func (o *planOptions) ofRelease(ctx context.Context, streams cli.Streams) error {
	c, err := openRelease(ctx, streams, &o.ReviewFlags, o.release)
	if err != nil {
		return err
	}
	defer c.world.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := c.judge(ctx)
	if err != nil {
		return err
	}
	plan := copyplan.Make(ctx, c.judged.Reviewer, r.Judged, o.missing)
	plan.Release = copyplan.Release{Version: r.Version, Channel: r.Channel, Architecture: r.Architecture}
	unknown, later := r.Open()
	plan.Unknown, plan.Notes = append(plan.Unknown, unknown...), slices.Concat(plan.Notes, later, r.Notes)
	return o.print(ctx, streams.Out, &plan)
}

func (o *planOptions) print(ctx context.Context, out io.Writer, plan *copyplan.Plan) error {
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	if err := plan.Write(out, o.output.Format); err != nil {
		return err
	}
	if len(plan.Unknown) > 0 {
		return fmt.Errorf("plan: not all could be determined: %s", text.Names(plan.Unknown, 3))
	}
	return nil
}
