package environment

import (
	"context"
	"io"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/renderedconfig"
)

// A Rollout is the part of a cluster, or of a dump, that its rollouts depend on: without images, and
// without registries. It has to be closed.
type Rollout struct {
	status.Input
	Source Cluster
	// Problems are parts of a dump that could not be read.
	Problems []string
	// Config leads to the cluster; nil for a dump.
	Config *rest.Config

	clock *ServerClock // nil for a dump
	stop  context.CancelFunc
}

// RolloutTimeout is how long a command may take to read the cluster.
const RolloutTimeout = time.Minute

// OpenRollout reads a live cluster, and says on progress how far that is.
func OpenRollout(ctx context.Context, config *rest.Config, progress io.Writer) (*Rollout, error) {
	clock := new(ServerClock)
	config = rest.CopyConfig(config)
	config.Wrap(clock.Wrap)
	inventory, err := cluster.New(config, cluster.Options{OnlyRollout: true, ForbiddenAfter: ForbiddenAfter})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	// client-go would write on standard error that a request was cancelled.
	go inventory.Run(klog.NewContext(ctx, logr.Discard())) //nolint:errcheck // it returns nil, and ends with stop
	r := &Rollout{Source: inventory, Config: config, clock: clock, stop: stop}
	if err = AwaitRead(ctx, progress, inventory, RolloutTimeout); err == nil {
		err = r.Read(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return r, nil
}

// RolloutOfDump returns what a dump has.
func RolloutOfDump(ctx context.Context, dump *snapshot.Snapshot) (*Rollout, error) {
	r := &Rollout{Source: dump, stop: func() {}}
	for _, problem := range dump.Problems() {
		r.Problems = append(r.Problems, "not read: "+problem.Error())
	}
	return r, r.Read(ctx)
}

// Read takes what the source has by now, and reads those of the rendered configs that pools and nodes
// name which it can. The error is that of status.Applies or ctx.
func (r *Rollout) Read(ctx context.Context) (err error) {
	objects := r.Source.RolloutObjects()
	r.Cluster, r.MachineNodes = objects.Cluster(), objects.MachineNodes
	if r.clock != nil {
		r.Now = r.clock.Now()
	}
	if err := status.Applies(r.Cluster); err != nil {
		return err
	}
	r.Rendered, r.Unread, err = new(renderedconfig.Configs).Read(ctx, r.Source, status.Needed(r.Cluster, status.MaxRendered), r.Now)
	return err
}

// Close ends what follows the cluster.
func (r *Rollout) Close() { r.stop() }

// Progress returns a live cluster that follows only the objects that change in a rollout. It reads
// nothing until it runs.
func Progress(config *rest.Config) (*cluster.Inventory, error) {
	return cluster.New(config, cluster.Options{OnlyProgress: true, ForbiddenAfter: ForbiddenAfter})
}
