package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

func newRollout() *cobra.Command {
	var o rolloutOptions
	cmd := o.statusCommand("rollout")
	cmd.Short = "Say how far nodes have come with the last change, and pause or resume pools"
	cmd.AddCommand(newRolloutStatus(), newRolloutVerify(), newRolloutDiagnose(), newRolloutPause(true), newRolloutPause(false))
	return cmd
}

// A rolloutWorld is a cluster or a dump of one, of which only that is read that a rollout
// goes through.
type rolloutWorld struct {
	cluster clusterFlags
	from    string
}

func (w *rolloutWorld) addFlags(flags *pflag.FlagSet) {
	w.cluster.addFlags(flags)
	flags.StringVar(&w.from, "from", "", "read the cluster from a dump: a must-gather, a YAML or JSON file, a folder of manifests, or - (standard input)")
}

// A rolloutSource is a *cluster.Inventory or a *snapshot.Snapshot.
type rolloutSource interface {
	RolloutObjects() workloads.Objects
	Rendered(ctx context.Context, name string) (*rollout.Rendered, error)
	Mirrors(context.Context) (mirrors.Set, error)
}

// A rolloutView is what was read.
type rolloutView struct {
	status.Input
	source rolloutSource
	// problems are parts of a dump that could not be read.
	problems []string
	stop     context.CancelFunc
}

// read reads the world. The view is to be stopped.
func (w *rolloutWorld) read(ctx context.Context, io streams) (*rolloutView, error) {
	ctx, stop := context.WithCancel(ctx)
	view := &rolloutView{stop: stop}
	open := w.openCluster
	if w.from != "" {
		open = w.openDump
	}
	err := open(ctx, io, view)
	if err == nil {
		objects := view.source.RolloutObjects()
		view.Cluster, view.MachineNodes = objects.Cluster(), objects.MachineNodes
		err = status.Applies(view.Cluster)
	}
	if err == nil {
		err = view.readRendered(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return view, nil
}

func (w *rolloutWorld) openDump(_ context.Context, io streams, view *rolloutView) error {
	dump, err := readSnapshot(w.from, io)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	for _, problem := range dump.Problems() {
		fmt.Fprintf(io.err, "mirrorset-guard: --from: %v\n", problem)
		view.problems = append(view.problems, "not read: "+problem.Error())
	}
	view.source = dump
	return nil
}

// rolloutTimeout is how long a command waits for what a rollout goes through.
const rolloutTimeout = time.Minute

func (w *rolloutWorld) openCluster(ctx context.Context, io streams, view *rolloutView) error {
	config, err := w.cluster.config()
	if err != nil {
		return err
	}
	cluster, err := live.New(config, live.Options{OnlyRollout: true, ForbiddenAfter: forbiddenTimeout})
	if err != nil {
		return err
	}
	go cluster.Run(ctx) //nolint:errcheck // it returns nil, and ends with view.stop
	waiting, cancel := context.WithTimeout(ctx, rolloutTimeout)
	defer cancel()
	defer showProgress(io.err, cluster.Sources)()
	if err := cluster.WaitReady(waiting); err != nil {
		return fmt.Errorf("reading the cluster: %w", err)
	}
	view.source, view.Now = cluster, time.Now()
	return nil
}

const (
	// maxRendered is how many rendered configs are read. Pools have two each; nodes may say
	// that they have any.
	maxRendered = 64
	// renderedAtOnce is small, as each may have a megabyte.
	renderedAtOnce = 4
)

// readRendered reads the rendered configs that pools and nodes name, as far as it can. The
// error is that of ctx.
func (v *rolloutView) readRendered(ctx context.Context) error {
	v.Rendered, v.Unread = map[string]*rollout.Rendered{}, map[string]error{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(renderedAtOnce)
	for _, name := range status.Needed(v.Cluster, maxRendered) {
		group.Go(func() error {
			config, err := v.source.Rendered(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				v.Unread[name] = err
				return nil
			}
			v.Rendered[name] = config
			return nil
		})
	}
	return errors.Join(group.Wait(), context.Cause(ctx))
}
