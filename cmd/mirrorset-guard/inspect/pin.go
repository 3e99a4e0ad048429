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
	case o.rescue && !o.pin:
		return errors.New("--rescue: only with --pin")
	case !o.pin:
		return nil
	case o.plan != "":
		return errors.New("--pin: not with --plan")
	case o.assume != "":
		return errors.New("--pin: not with --assume, as nodes would be told to hold images that are not there")
	case o.Change.Deletes():
		return errors.New("--pin: not with --delete")
	case len(targets) != 1 || targets[0].Format != "table":
		return errors.New("--pin takes the place of --output: leave one of them out")
	default:
		return nil
	}
}

// printPins prints PinnedImageSets for what drains move, as far as a review finds that nodes can pull it.
func (o *checkOptions) printPins(ctx context.Context, streams cli.Streams, target cli.Target, c *candidate) error {
	through := c.World.Cluster.RolloutObjects().Cluster()
	if err := pinnable(through); err != nil {
		return err
	}
	gathering, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	gvk, err := c.World.Cluster.PinnedSetGVK(gathering)
	if err != nil {
		return err
	}
	wants, err := o.rescueSet(gathering, &c.Reviewer, through)
	if err != nil {
		return err
	}
	wants = append(wants, pins.OfDrains(through, func() bool { return gathering.Err() != nil })...)
	if err := gathering.Err(); err != nil {
		return fmt.Errorf("--pin: %w", err)
	}
	return o.printSets(ctx, streams, target, c.Reviewer, c.By, through, func(wants []pins.Want) pins.Pins {
		return pins.Make("pinned", gvk, wants, through.Pools)
	}, wants)
}

// printReleasePins prints PinnedImageSets of what the nodes of each pool may run of a release that is ready.
func (o *checkOptions) printReleasePins(ctx context.Context, streams cli.Streams, target cli.Target, w *world.World, judged readiness.World, r *readiness.Readiness) error {
	through := w.Cluster.RolloutObjects().Cluster()
	if err := pinnable(through); err != nil {
		return err
	}
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	if err := o.releaseError(r); err != nil {
		fmt.Fprintln(streams.Err, r.Report())
		return err
	}
	gathering, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	gvk, err := w.Cluster.PinnedSetGVK(gathering)
	if err != nil {
		return err
	}
	wants, err := o.rescueSet(gathering, judged.Reviewer, through)
	if err != nil {
		return err
	}
	today, err := readiness.Today(gathering, judged)
	if err != nil {
		fmt.Fprintln(streams.Err, "Note: every pool gets all images, as it is not known which of them today's release runs in which pool:", text.Line(err.Error()))
	}
	by, err := o.By.Requester()
	if err != nil {
		return err
	}
	return o.printSets(ctx, streams, target, *judged.Reviewer, by, through, func(wants []pins.Want) pins.Pins {
		return pins.Make("release", gvk, wants, through.Pools)
	}, append(wants, r.Wants(through, today)...))
}

// rescueSet returns the rescue set, if it is to be pinned.
func (o *checkOptions) rescueSet(ctx context.Context, reviewer *review.Reviewer, through rollout.Cluster) ([]pins.Want, error) {
	if !o.rescue {
		return nil, nil
	}
	known, err := reviewer.Inventory.Cluster(ctx)
	return pins.OfRescue(known.Images, through.Pools), err
}

// pinnable returns an error for a cluster that takes no sets.
func pinnable(through rollout.Cluster) error {
	if len(through.Pools) == 0 || len(through.Nodes) == 0 {
		return errors.New("--pin: no MachineConfigPool with nodes is known, for which images could be pinned")
	}
	return nil
}

// maxPinReviews is how often sets are made: what a review refuses is left out of the next, which may learn that a registry has lost
// something in the meantime.
const maxPinReviews = 3

// printSets prints sets that a review admits, without what it refuses; the error is ErrDenied then. Without a vital image, nothing is
// printed but the reasons.
func (o *checkOptions) printSets(ctx context.Context, streams cli.Streams, target cli.Target, reviewer review.Reviewer, by policy.Requester, through rollout.Cluster, propose func([]pins.Want) pins.Pins, wants []pins.Want) error {
	reviewer.Brought, reviewer.Settings.Blobs = nil, policy.BlobsOfAll
	left := 0
	for range maxPinReviews {
		made := propose(wants)
		if len(made.Sets) == 0 && left == 0 {
			return noPins(made)
		}
		if len(made.Sets) == 0 {
			break
		}
		record, err := o.reviewSets(ctx, reviewer, made, by)
		if err != nil {
			return err
		}
		if err := cli.Interrupted(ctx); err != nil {
			return err
		}
		refused := pins.Refused(record)
		if record.Verdict.Allowed && len(refused) == 0 {
			if err := target.Print(ctx, streams.Out, func(w io.Writer) error { return made.Write(w, record) }); err != nil {
				return err
			}
			return notePins(streams, through, made, left)
		}
		if err := printReport(streams.Err, record, false); err != nil {
			return err
		}
		rest, vital := pins.LeaveOut(wants, refused)
		if vital || len(refused) == 0 {
			break
		}
		wants, left = rest, left+len(refused)
	}
	return cli.ErrDenied
}

// reviewSets reviews sets within the time limit of one review.
func (o *checkOptions) reviewSets(ctx context.Context, reviewer review.Reviewer, made pins.Pins, by policy.Requester) (review.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return reviewer.Review(ctx, made.Edit(), by)
}

// notePins says what sets that were printed do not do; left is how many images a review refused.
func notePins(streams cli.Streams, through rollout.Cluster, made pins.Pins, left int) error {
	if len(through.NodePins) == 0 {
		fmt.Fprintln(streams.Err, "Note: no MachineConfigNode is known, without which nobody can tell whether nodes hold what is pinned")
	}
	if len(made.Left) > 0 {
		fmt.Fprintf(streams.Err, "Note: a registry is needed all the same, for %s: see the comments\n", text.Count(len(made.Left), "image"))
	}
	if left == 0 {
		return nil
	}
	fmt.Fprintf(streams.Err, "Note: the sets are not all that was to be pinned: %s left out, for the reasons above\n", text.Plural(left, "image is", "images are"))
	return cli.ErrDenied
}

// noPins says why there is nothing to print.
func noPins(made pins.Pins) error {
	if len(made.Left) == 0 {
		return errors.New("--pin: no drain moves a pod, so that nothing has to be pinned")
	}
	return fmt.Errorf("--pin: nothing can be pinned: %s", text.Line(text.First(made.Left, 1, "image")[0]))
}
