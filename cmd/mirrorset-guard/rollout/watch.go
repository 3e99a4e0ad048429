package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
)

// watchOptions are the choices of the command rollout watch.
type watchOptions struct {
	cluster    cli.ClusterFlags
	output     cli.Output
	pools      []string
	waitFor    cli.ChangeFlags
	timeout    time.Duration
	keepGoing  bool
	now        func() time.Time
	stallAfter time.Duration // progress.DefaultStallAfter, but in tests
}

// newWatchOptions returns the defaults.
func newWatchOptions() *watchOptions {
	return &watchOptions{output: cli.Formats("lines", "json"), now: time.Now, stallAfter: progress.DefaultStallAfter}
}

// command returns the command with o as its defaults.
func (o *watchOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow a rollout to its end, and report when it stalls",
		Long: `watch shows how far each pool is, which nodes are under way, and what happens, until
every node has what the mirror objects ask for and all pools are updated. A change
that the Machine Config Operator has not noticed yet counts as well. With --wait-for
it waits until the objects of a file are in the cluster as the file says and have
reached every node of the pools that get them. PinnedImageSets have, once every
MachineConfigNode says that its node holds them.

A rollout has stalled when nothing in it has moved for 10 minutes and a cause is
known that does not pass by itself, or for three times as long without one. Each
change is a line, or an object with -o json.

Exit code 0: reached. 1: a pool is degraded, or nothing moves. 2: no answer, within
--timeout if there is one, or wrong usage.`,
		Example: `  mirrorset-guard rollout watch
  oc apply -f mirrors.yaml && mirrorset-guard rollout watch --wait-for mirrors.yaml --timeout 4h
  mirrorset-guard rollout watch --pool worker -o json`,
		Args: withoutArguments,
		RunE: cli.Runs(o.run),
	}
	flags := cmd.Flags()
	o.cluster.AddFlags(flags)
	o.output.AddFlags(flags)
	flags.StringArrayVar(&o.pools, "pool", nil, "only this pool counts; may be repeated")
	flags.StringArrayVar(&o.waitFor.Files, "wait-for", nil, "file, folder or - (standard input) with mirror objects or PinnedImageSets that have to reach the nodes; may be repeated")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long to wait for the end; 0 means no limit")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "continue when a pool is degraded or has stalled")
	return cmd
}

func (o *watchOptions) run(ctx context.Context, s cli.Streams) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %s: must not be negative; 0 means no limit", o.timeout)
	}
	edit, err := o.edit(s)
	if err != nil {
		return err
	}
	config, err := o.cluster.Config()
	if err != nil {
		return err
	}
	inventory, err := environment.Progress(config)
	if err != nil {
		return err
	}
	print := printLines
	if o.output.Format == "json" {
		print = printJSON
	}
	w := watch.New(inventory, watch.Options{
		Goal: verify.Goal{Edit: edit, Pools: o.pools}, StallAfter: o.stallAfter, KeepGoing: o.keepGoing, Now: o.now,
		Print: inWords(print, s), Progress: s.Err, Check: o.checkPools, Config: o.cluster.Config,
	})
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errWatchTimeout)
		defer cancel()
	}
	outcome, err := w.Run(ctx)
	if err == nil && !outcome.Good {
		err = cli.ErrDenied
	}
	return err
}

// errWatchTimeout ends a watch for which --timeout was too short.
var errWatchTimeout = errors.New("--timeout has expired")

// edit returns the change to wait for, nil for none in particular. Nothing in a rendered config tells
// whether a node trusts other CAs: they are not waited for.
func (o *watchOptions) edit(s cli.Streams) (*mirrors.Edit, error) {
	if len(o.waitFor.Files) == 0 {
		return nil, nil
	}
	edit, err := o.waitFor.Read(s)
	if err != nil {
		return nil, fmt.Errorf("--wait-for: %w", err)
	}
	return &edit, nil
}

// checkPools returns an error for those of the pools that count which do not exist.
func (o *watchOptions) checkPools(pools []*mcfgv1.MachineConfigPool) error {
	if err := noPool(o.pools, pools); err != nil {
		return fmt.Errorf("--pool: %w", err)
	}
	return nil
}
