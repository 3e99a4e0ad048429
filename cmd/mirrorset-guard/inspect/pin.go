package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/pins"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
)

// pinOptions are the choices of the command pin.
type pinOptions struct {
	cli.ReviewFlags
	timeout time.Duration
	// release is the release to be pinned instead of what drains move.
	release string
	// rescue is whether to pin the rescue set, too.
	rescue bool
}

func newPin() *cobra.Command {
	var o pinOptions
	cmd := &cobra.Command{
		Use:   "pin {-f FILE | --release VERSION}",
		Short: "Print PinnedImageSets that have nodes hold what drains move, or a release",
		Long: `pin prints PinnedImageSets, for each pool, of what drains of any node move, as far as it was
found where nodes pull it from. Applied before the change in -f, they spare its drains a
registry. With --release, they have the nodes hold what they may run of a release that is
READY.

Exit code 0: printed. 1: an image was not found and is left out, the sets would be denied,
or the release is NOT READY. 2: what drains move could not all be read, trouble, or wrong
usage.`,
		Example: `  mirrorset-guard pin -f itms.yaml > pins.yaml
  mirrorset-guard pin --release 4.21.3 --rescue > pins.yaml`,
		Args: cli.Apart(cli.NoArgs, "release", "filename"),
		RunE: cli.Runs(o.run),
	}
	flags := cmd.Flags()
	o.AddInForce(flags)
	o.Change.AddFile(flags)
	o.By.AddFlags(flags)
	addTimeout(flags, &o.timeout)
	addRelease(flags, &o.release, "pin what nodes may run of a release, instead of what drains move")
	flags.BoolVar(&o.rescue, "rescue", false, "pin images for the day something is wrong, too: must-gather, what oc debug starts, support's tools, and the guard's own")
	return cmd
}

func (o *pinOptions) run(ctx context.Context, streams cli.Streams) error {
	if o.release != "" {
		return o.ofRelease(ctx, streams)
	}
	return o.ofDrains(ctx, streams)
}

// ofDrains prints PinnedImageSets for the images that drains move and that a review finds pullable.
func (o *pinOptions) ofDrains(ctx context.Context, streams cli.Streams) error {
	if len(o.Change.Files) == 0 {
		return errNoChange
	}
	c, err := o.Open(ctx, streams)
	if err != nil {
		return err
	}
	defer c.World.Close()
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
		return fmt.Errorf("pin: %w", err)
	}
	return o.printSets(ctx, streams, c.Reviewer, c.By, through, func(wants []pins.Want) pins.Pins {
		made := pins.Make("pinned", gvk, wants, through.Pools)
		made.Unread = pins.UnreadOf(through)
		return made
	}, wants)
}

// ofRelease prints PinnedImageSets of what the nodes of each pool may run of a release that is ready.
func (o *pinOptions) ofRelease(ctx context.Context, streams cli.Streams) error {
	c, err := openRelease(ctx, streams, &o.ReviewFlags, o.release)
	if err != nil {
		return err
	}
	defer c.world.Close()
	through := c.world.Cluster.RolloutObjects().Cluster()
	if err := pinnable(through); err != nil {
		return err
	}
	judging, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := c.judge(judging)
	if err != nil {
		return err
	}
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	if err := cli.ReleaseError(r); err != nil {
		fmt.Fprintln(streams.Err, r.Answer())
		return err
	}
	gathering, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	gvk, err := c.world.Cluster.PinnedSetGVK(gathering)
	if err != nil {
		return err
	}
	wants, err := o.rescueSet(gathering, c.judged.Reviewer, through)
	if err != nil {
		return err
	}
	today, err := judge.Today(gathering, c.judged)
	if err != nil {
		fmt.Fprintln(streams.Err, "Note: every pool gets all images, as it is not known which of them today's release runs in which pool:", text.Line(err.Error()))
	}
	by, err := o.By.Requester()
	if err != nil {
		return err
	}
	return o.printSets(ctx, streams, *c.judged.Reviewer, by, through, func(wants []pins.Want) pins.Pins {
		return pins.Make("release", gvk, wants, through.Pools)
	}, append(wants, judge.Wants(r, through, today)...))
}

// rescueSet returns the rescue set, if it is to be pinned.
func (o *pinOptions) rescueSet(ctx context.Context, reviewer *review.Reviewer, through rollout.Cluster) ([]pins.Want, error) {
	if !o.rescue {
		return nil, nil
	}
	known, err := reviewer.Inventory.Cluster(ctx)
	return pins.OfRescue(known.Images, through.Pools), err
}

// pinnable returns an error for a cluster that takes no sets.
func pinnable(through rollout.Cluster) error {
	if len(through.Pools) == 0 || len(through.Nodes) == 0 {
		return errors.New("pin: no MachineConfigPool with nodes is known, for which images could be pinned")
	}
	return nil
}

// maxPinReviews is how often sets are made: images that a review refuses are left out of the next, which may learn that a
// registry has lost something in the meantime.
const maxPinReviews = 3

// printSets prints sets that a review admits, without what it refuses; the error is ErrDenied then. Without a vital image, nothing is
// printed but the reasons.
func (o *pinOptions) printSets(ctx context.Context, streams cli.Streams, reviewer review.Reviewer, by settings.Requester, through rollout.Cluster, propose func([]pins.Want) pins.Pins, wants []pins.Want) error {
	reviewer.Brought, reviewer.Settings.Blobs = nil, settings.BlobsOfAll
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
			if err := made.Write(streams.Out, record); err != nil {
				return err
			}
			return notePins(streams, through, made, left)
		}
		fmt.Fprint(streams.Err, record.Answer().Text(cli.LookOf(streams.Err)))
		rest, vital := pins.LeaveOut(wants, refused)
		if vital || len(refused) == 0 {
			break
		}
		wants, left = rest, left+len(refused)
	}
	return cli.ErrDenied
}

// reviewSets reviews sets within the time limit of one review.
func (o *pinOptions) reviewSets(ctx context.Context, reviewer review.Reviewer, made pins.Pins, by settings.Requester) (review.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return reviewer.Review(ctx, made.Edit(), by)
}

// notePins says what sets that were printed do not do; left is how many images a review refused.
func notePins(streams cli.Streams, through rollout.Cluster, made pins.Pins, left int) error {
	if len(through.NodePins) == 0 {
		fmt.Fprintln(streams.Err, "Note: no MachineConfigNode is known: whether nodes hold the pinned images cannot be told")
	}
	if len(made.Left) > 0 {
		fmt.Fprintf(streams.Err, "Note: a registry is needed all the same, for %s: see the comments\n", text.Count(len(made.Left), "image"))
	}
	if left > 0 {
		fmt.Fprintf(streams.Err, "Note: the sets are not all that was to be pinned: %s left out, for the reasons above\n", text.Plural(left, "image is", "images are"))
	}
	switch {
	case len(made.Unread) > 0:
		return fmt.Errorf("pin: the sets may not be complete: %s", strings.Join(made.Unread, "; "))
	case left > 0:
		return cli.ErrDenied
	default:
		return nil
	}
}

// noPins says why there is nothing to print.
func noPins(made pins.Pins) error {
	reasons := slices.Concat(made.Unread, made.Left)
	if len(reasons) == 0 {
		return errors.New("pin: no drain moves a pod, so that nothing has to be pinned")
	}
	return fmt.Errorf("pin: nothing can be pinned: %s", text.Line(text.First(reasons, 1, "image")[0]))
}
