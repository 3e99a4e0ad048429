package rollouts

import (
	"context"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/renderedconfig"
)

// A Source is an inventory of a running cluster. *cluster.Inventory is one.
type Source interface {
	renderedconfig.Source
	// ProgressObjects are what tells how far a rollout is, ProgressChanges a number that grows
	// when one of them changes.
	ProgressObjects() workloads.Objects
	ProgressChanges() uint64
	Mirrors(context.Context) (mirrors.Set, error)
}

// A Reader reads the changed parts of a Source. It is not safe for concurrent use.
type Reader struct {
	source  Source
	configs renderedconfig.Configs

	targets string // of the pools when the set was read
	set     *mirrors.Set
	err     error // why it could not be read
	asked   time.Time
}

// NewReader returns a Reader that has read nothing.
func NewReader(source Source) *Reader { return &Reader{source: source} }

// readTimeout is how long an API server may take that is slow but not dead.
const readTimeout = 20 * time.Second

// Input reads what a status is made from. The error is that of status.Applies or ctx.
func (r *Reader) Input(ctx context.Context, now time.Time) (status.Input, error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	objects := r.source.ProgressObjects()
	in := status.Input{Cluster: objects.Cluster(), MachineNodes: objects.MachineNodes, Now: now}
	if err := status.Applies(in.Cluster); err != nil {
		return in, err
	}
	// Configs that take too long are among Unread.
	in.Rendered, in.Unread, _ = r.configs.Read(reading, r.source, status.Needed(in.Cluster, status.MaxRendered), now)
	return in, context.Cause(ctx)
}

// Mirrors returns the mirror configuration in force as it was when a pool got its target, or
// when Forget was called: MCO gives pools a new one for each change. One that could not be read
// is asked for again after a while.
func (r *Reader) Mirrors(ctx context.Context, pools rollout.Cluster, now time.Time) (*mirrors.Set, error) {
	targets := targetsOf(pools)
	if r.set != nil && targets == r.targets || r.err != nil && now.Sub(r.asked) < retryMirrors {
		return r.set, r.err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.asked, r.targets = now, targets
	set, err := r.source.Mirrors(ctx)
	if err != nil {
		r.set, r.err = nil, err
		return nil, err
	}
	r.set, r.err = &set, nil
	return r.set, nil
}

// Forget makes Mirrors read again.
func (r *Reader) Forget() { r.set, r.err = nil, nil }

// retryMirrors is how long mirror objects that could not be read are not asked for again.
const retryMirrors = 20 * time.Second

func targetsOf(c rollout.Cluster) string {
	targets := convert.Each(c.Pools, func(p *mcfgv1.MachineConfigPool) string { return p.Name + " " + p.Spec.Configuration.Name })
	slices.Sort(targets)
	return strings.Join(targets, "\n")
}
