package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// followingFlags configure the following of rollouts.
type followingFlags struct {
	stallAfter time.Duration // 0 for not at all
}

func (f *followingFlags) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&f.stallAfter, "rollout-stall-after", progress.DefaultStallAfter, "how long the rollout of a mirror change may go without movement before an Event reports the stall; 0 means that rollouts are not followed")
}

func (f *followingFlags) validate() error {
	if f.stallAfter != 0 && f.stallAfter < rollouts.LeastStallAfter {
		return fmt.Errorf("--rollout-stall-after %s: want %s or more; 0 means that rollouts are not followed", f.stallAfter, rollouts.LeastStallAfter)
	}
	return nil
}

// prepareFollowing makes what follows rollouts, if they are to be followed.
func (g *guard) prepareFollowing(budget *report.Budget) (err error) {
	stallAfter := g.options.standing.following.stallAfter
	if stallAfter == 0 {
		return nil
	}
	log := g.log.WithName("rollouts")
	g.follower, err = rollouts.NewFollower(rollouts.Options{
		Source: g.cluster, StallAfter: stallAfter, Differs: g.unreviewed.SuspectTarget, Log: log, Metrics: g.registry,
		Outlet: report.Outlet{Reporter: report.Events(g.events, rollouts.Author(g.replica), nil), Budget: budget, Log: log},
	})
	return err
}

// lead does what only one process should, until ctx ends.
func (g *guard) lead(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { g.unreviewed.TellRegistration(ctx) })
	loops.Go(func() { g.unreviewed.Tell(ctx) })
	if g.options.standing.every > 0 {
		loops.Go(func() { g.standing.Verify(ctx) })
		loops.Go(func() { g.updates.Run(ctx) })
	}
	if g.follower != nil {
		loops.Go(func() { g.follower.Run(ctx) })
	}
	loops.Wait()
}
