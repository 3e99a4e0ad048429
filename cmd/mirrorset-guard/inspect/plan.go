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
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
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
func (o *checkOptions) printPlan(ctx context.Context, out io.Writer, target cli.Target, reviewer *review.Reviewer, record review.Record, cluster world.Cluster) error {
	plan := handover.Make(ctx, reviewer, record, o.missing)
	plan.Release = handover.ReleaseOf(cluster.RolloutObjects().Version)
	images, err := cluster.Images(ctx)
	if err != nil {
		return err
	}
	subscriptions, unread := cluster.Subscriptions(ctx)
	plan.Operators = handover.OperatorsOf(subscriptions, images, unread)
	return o.writePlan(out, target, &plan)
}

func (o *checkOptions) writePlan(out io.Writer, target cli.Target, plan *handover.Plan) error {
	if err := target.Print(out, func(w io.Writer) error { return plan.Write(w, o.plan) }); err != nil {
		return err
	}
	if len(plan.Unknown) > 0 {
		return fmt.Errorf("--plan: not all could be determined: %s", text.Names(plan.Unknown, 3))
	}
	return nil
}
