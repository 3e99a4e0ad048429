package rollouts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A WholeSource is a Source that also has what holds a rollout up. *cluster.Inventory is one.
type WholeSource interface {
	Source
	RolloutObjects() workloads.Objects
}

// Options are what NewFollower needs.
type Options struct {
	Source WholeSource
	// Outlet is where the news go. Its budgets may be shared with others who report about the same
	// objects.
	Outlet watchloop.Outlet
	// StallAfter is that of progress.NewTracker.
	StallAfter time.Duration
	// Differs receives how a pool's new target differs from what mirror objects and MachineConfigs
	// ask for, once for each target. It may be nil, and must not block.
	Differs func(verify.TargetDifference)
	// Log receives what goes wrong. The zero value discards it.
	Log logr.Logger
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
}

// A Follower follows the rollouts that mirror changes have started. It keeps no state between
// calls of Run: a new leader reports rollouts under way once more.
type Follower struct {
	options Options
	metrics *metrics
}

// NewFollower returns a Follower. It is an error if its metrics are registered already.
func NewFollower(o Options) (*Follower, error) {
	m, err := newMetrics(o.Metrics)
	return &Follower{options: o, metrics: m}, err
}

// every is how often a Follower looks whether there is news, which takes no request: as long as it takes until all pools
// have begun that a change reaches, so that they are one report.
const every = 5 * time.Second

// again times every is how often a Follower looks without news: standing still makes no news.
const again = 6

// Run follows rollouts until ctx ends. Only one process should do so at a time.
func (f *Follower) Run(ctx context.Context) {
	f.metrics.follows(true)
	defer f.metrics.follows(false)
	r := &run{Follower: f, reader: NewReader(f.options.Source), tracker: progress.NewTracker(f.options.StallAfter), ledger: newLedger(), targets: map[string]target{}}
	loop := watchloop.NewLoop(every, "Could not follow rollouts", f.options.Log)
	loop.Steady = true // what does not move is counted in multiples of it, and a look takes no request
	loop.Run(ctx, func(ctx context.Context) (bool, error) {
		return true, r.look(ctx, time.Now())
	})
}

// A run is the state of one call of Run.
type run struct {
	*Follower
	reader  *Reader
	tracker *progress.Tracker
	ledger  *ledger

	seen   uint64 // ProgressChanges when it looked last
	looked time.Time
	blind  time.Time // since when nothing is known, zero if something is
	set    *mirrors.Set
	input  status.Input
	none   bool // there are no rollouts to be followed

	targets map[string]target // by pool
}

// look takes in changes, and reports them.
func (r *run) look(ctx context.Context, now time.Time) error {
	if !r.isDue(now) {
		return nil
	}
	in, err := r.reader.Input(ctx, now)
	switch {
	case errors.Is(err, status.ErrHosted) || errors.Is(err, status.ErrNoPools):
		r.metrics.pools(nil)
		return r.noRollouts(err)
	case err != nil:
		return err
	case r.isBlind(in.Cluster, now):
		return nil
	}
	r.none, r.input = false, in
	sight := progress.Sight{Input: in, Time: now}
	var noSet error
	sight.Mirrors, noSet = r.reader.Mirrors(ctx, in.Cluster, now)
	r.set = sight.Mirrors
	r.tracker.Observe(sight)
	r.compareTargets(now)
	if r.tracker.WantsDiagnosis(now) && sight.Mirrors != nil {
		r.diagnose(*sight.Mirrors, now)
	}
	pools := mirrorPools(r.tracker.Pools(now))
	r.metrics.pools(pools)
	return errors.Join(noSet, r.report(ctx, pools, now))
}

func (r *run) isDue(now time.Time) bool {
	seen := r.options.Source.ProgressChanges()
	if seen == r.seen && now.Sub(r.looked) < again*every {
		return false
	}
	r.seen, r.looked = seen, now
	return true
}

// noRollouts says so once.
func (r *run) noRollouts(why error) error {
	if !r.none {
		r.options.Log.Info("No rollouts to be followed", "reason", why.Error())
	}
	r.none = true
	return nil
}

// isBlind reports whether pools or nodes are not known as they are now. That time is not held against a
// rollout.
func (r *run) isBlind(c rollout.Cluster, now time.Time) bool {
	is := slices.Contains(c.Unknown, workloads.Nodes) || slices.Contains(c.Unknown, workloads.Pools)
	switch {
	case is && r.blind.IsZero():
		r.blind = now
	case !is && !r.blind.IsZero():
		r.tracker.Blind(now.Sub(r.blind))
		r.blind = time.Time{}
	}
	return is
}

// diagnose finds out why a rollout does not go on, with the pods that the guard follows.
func (r *run) diagnose(set mirrors.Set, now time.Time) {
	objects := r.options.Source.RolloutObjects()
	in := r.input
	in.Cluster = objects.Cluster()
	r.tracker.Diagnosed(causes.Diagnose(in, set), in.Cluster, now)
}

// A mirrorPool is a pool, and whether a mirror change is on its way to its nodes.
type mirrorPool struct {
	progress.Pool
	ByMirrors bool
}

func mirrorPools(pools []progress.Pool) []mirrorPool {
	of := make([]mirrorPool, len(pools))
	for i, p := range pools {
		of[i] = mirrorPool{p, p.Active && p.Changes != nil && len(p.Changes.Registries) > 0}
	}
	return of
}
