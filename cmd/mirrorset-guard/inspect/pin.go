package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/pins"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
)

// checkPin returns an error for flags that do not go with --pin.
func (o *checkOptions) checkPin(targets []cli.Target) error {
	switch {
	case !o.pin:
		return nil
	case o.plan != "":
		return errors.New("--pin: not with --plan")
	case o.change.Deletes():
		return errors.New("--pin: not with --delete")
	case len(targets) != 1 || targets[0].Format != "table":
		return errors.New("--pin takes the place of --output: leave one of them out")
	default:
		return nil
	}
}

// printPins prints PinnedImageSets for what drains move, once a review has found that nodes can pull it all.
func (o *checkOptions) printPins(ctx context.Context, streams cli.Streams, target cli.Target, c *candidate) error {
	through := c.world.Cluster.RolloutObjects().Cluster()
	if err := pinnable(through); err != nil {
		return err
	}
	made := pins.Make("pinned", pins.OfDrains(through, func() bool { return ctx.Err() != nil }), through.Pools)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("--pin: %w", err)
	}
	if len(made.Sets) == 0 {
		return noPins(made)
	}
	if err := printSets(ctx, streams, target, c.reviewer, made, c.by); err != nil {
		return err
	}
	notePins(streams, through)
	if len(made.Left) > 0 {
		fmt.Fprintf(streams.Err, "Note: drains need a registry all the same, for %s: see the comments\n", text.Count(len(made.Left), "image"))
	}
	return nil
}

// printReleasePins prints PinnedImageSets of what the nodes of each pool may run of a release that is ready.
func (o *checkOptions) printReleasePins(ctx context.Context, streams cli.Streams, target cli.Target, w *world.World, reviewer *review.Reviewer, r *readiness.Readiness) error {
	through := w.Cluster.RolloutObjects().Cluster()
	if err := pinnable(through); err != nil {
		return err
	}
	if err := o.releaseError(r); err != nil {
		fmt.Fprintln(streams.Err, r.Report())
		return err
	}
	made := pins.Make("release", r.Wants(through.Pools), through.Pools)
	if len(made.Sets) == 0 {
		return noPins(made)
	}
	by, err := o.by.Requester()
	if err != nil {
		return err
	}
	if err := printSets(ctx, streams, target, *reviewer, made, by); err != nil {
		return err
	}
	notePins(streams, through)
	return nil
}

// pinnable returns an error for a cluster that takes no sets.
func pinnable(through rollout.Cluster) error {
	if len(through.Pools) == 0 || len(through.Nodes) == 0 {
		return errors.New("--pin: no MachineConfigPool with nodes is known, for which images could be pinned")
	}
	return nil
}

// printSets prints sets that a review admits, and what it found of others.
func printSets(ctx context.Context, streams cli.Streams, target cli.Target, reviewer review.Reviewer, made pins.Pins, by policy.Requester) error {
	reviewer.Brought, reviewer.Settings.Blobs = nil, policy.BlobsOfAll
	record, err := reviewer.Review(ctx, made.Edit(), by)
	if err != nil {
		return err
	}
	if !record.Verdict.Allowed {
		if err := printReport(streams.Err, record, false); err != nil {
			return err
		}
		return cli.ErrDenied
	}
	return target.Print(streams.Out, func(w io.Writer) error { return made.Write(w, record) })
}

func notePins(streams cli.Streams, through rollout.Cluster) {
	if len(through.NodePins) == 0 {
		fmt.Fprintln(streams.Err, "Note: no MachineConfigNode is known, without which nobody can tell whether nodes hold what is pinned")
	}
}

// noPins says why there is nothing to print.
func noPins(made pins.Pins) error {
	if len(made.Left) == 0 {
		return errors.New("--pin: no drain moves a pod, so that nothing has to be pinned")
	}
	return fmt.Errorf("--pin: nothing can be pinned: %s", text.Line(text.First(made.Left, 1, "image")[0]))
}
