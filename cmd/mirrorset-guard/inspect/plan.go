package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/handover"
)

// checkPlan returns an error for flags of a plan that do not go together.
func (o *checkOptions) checkPlan(targets []cli.Target) error {
	switch {
	case o.plan == "" && o.missing:
		return errors.New("--missing: only with --plan")
	case o.plan == "":
		return nil
	case !slices.Contains(handover.Formats(), o.plan):
		return fmt.Errorf("--plan %q: choose one of %s", o.plan, strings.Join(handover.Formats(), ", "))
	case len(targets) != 1 || targets[0].Format != "table":
		return errors.New("--plan takes the place of --output: leave one of them out")
	default:
		return nil
	}
}

// printPlan prints what is to be copied for the change, whether it would be admitted or not.
func (o *checkOptions) printPlan(ctx context.Context, out io.Writer, target cli.Target, c *candidate, record review.Record) error {
	cluster := c.World.Cluster
	plan := handover.Make(ctx, &c.Reviewer, record, o.missing)
	for _, g := range record.Plan.Gaps {
		plan.Unknown = append(plan.Unknown, g.String())
	}
	if c.mapping != nil {
		plan.Notes = append(plan.Notes, c.mapping.Note())
	}
	plan.Release = handover.ReleaseOf(cluster.RolloutObjects().Version, cluster.Nodes())
	return o.writePlan(ctx, out, target, &plan)
}

func (o *checkOptions) writePlan(ctx context.Context, out io.Writer, target cli.Target, plan *handover.Plan) error {
	if err := target.Print(ctx, out, func(w io.Writer) error { return plan.Write(w, o.plan) }); err != nil {
		return err
	}
	if len(plan.Unknown) > 0 {
		return fmt.Errorf("--plan: not all could be determined: %s", text.Names(plan.Unknown, 3))
	}
	return nil
}
