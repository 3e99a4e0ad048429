package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/review/rendered"
)

func newRollout() *cobra.Command {
	var o rolloutOptions
	cmd := o.statusCommand("rollout")
	cmd.Short = "Say how far nodes have come with the last change, and pause or resume pools"
	cmd.AddCommand(newRolloutStatus(), newRolloutVerify(), newRolloutDiagnose(), newRolloutWatch(), newRolloutPause(true), newRolloutPause(false))
	return cmd
}

// withoutArguments refuses arguments, and helps with a command that is spelled otherwise.
func withoutArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	cmd.SuggestionsMinimumDistance = 2 // as cobra suggests by itself
	suggested := cmd.SuggestionsFor(args[0])
	switch {
	case len(suggested) > 0:
		return fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(suggested, " or "))
	case len(names) > 0:
		return fmt.Errorf("%s has no command %q: there are %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	default:
		return fmt.Errorf("%s takes no arguments, and %q is one", cmd.CommandPath(), args[0])
	}
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
	rendered.Source
	Mirrors(context.Context) (mirrors.Set, error)
}

// A rolloutView holds what was read.
type rolloutView struct {
	status.Input
	source rolloutSource
	// problems are parts of a dump that could not be read.
	problems []string
	// config leads to the cluster; nil for a dump, of which nobody can be asked.
	config *rest.Config
	clock  *evidence.ServerClock
	stop   context.CancelFunc
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
		err = view.take(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return view, nil
}

// take takes what the source has by now.
func (v *rolloutView) take(ctx context.Context) error {
	objects := v.source.RolloutObjects()
	v.Cluster, v.MachineNodes = objects.Cluster(), objects.MachineNodes
	if v.clock != nil {
		v.Now = v.clock.Now()
	}
	if err := status.Applies(v.Cluster); err != nil {
		return err
	}
	return v.readRendered(ctx)
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
	clock := new(evidence.ServerClock)
	config.Wrap(clock.Wrap)
	cluster, err := live.New(config, live.Options{OnlyRollout: true, ForbiddenAfter: forbiddenTimeout})
	if err != nil {
		return err
	}
	// client-go would write on standard error that a request was cancelled.
	go cluster.Run(klog.NewContext(ctx, logr.Discard())) //nolint:errcheck // it returns nil, and ends with view.stop
	if err := awaitRead(ctx, io.err, cluster, rolloutTimeout); err != nil {
		return err
	}
	view.source, view.config, view.clock = cluster, config, clock
	return nil
}

// readRendered reads the rendered configs that pools and nodes name, as far as it can. The
// error is that of ctx.
func (v *rolloutView) readRendered(ctx context.Context) (err error) {
	v.Rendered, v.Unread, err = new(rendered.Configs).Read(ctx, v.source, status.Needed(v.Cluster, status.MaxRendered), v.Now)
	return err
}
