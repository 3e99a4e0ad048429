package serve

import (
	"context"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// prepareFollowing makes what follows rollouts.
func (g *guard) prepareFollowing(budget *watchloop.Budget) (err error) {
	log := g.log.WithName("rollouts")
	g.follower, err = rollouts.NewFollower(rollouts.Options{
		Source: g.cluster, Differs: g.unreviewed.SuspectTarget, Log: log, Metrics: g.registry,
		Outlet: watchloop.Outlet{Reporter: watchloop.Events(g.events, rollouts.Author(g.replica), nil), Budget: budget, Log: log},
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
	loops.Go(func() { g.follower.Run(ctx) })
	loops.Wait()
}
