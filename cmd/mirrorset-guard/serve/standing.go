package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/election"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// standingFlags configure the standing verification.
type standingFlags struct {
	every time.Duration
	elect bool
}

func (s *standingFlags) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.every, "verify-every", standing.DefaultEvery, "how often to verify the mirror configuration in force and report as Events what has changed; 0 for never")
	flags.BoolVar(&s.elect, "leader-elect", false, "for one of several replicas: verify and report only while holding the Lease "+election.LeaseName+" in namespace "+webhook.Namespace+", and share the changes that were just admitted in "+recent.LeaseName+" there, to judge changes made at the same moment together")
}

func (s *standingFlags) validate() error {
	if s.every < 0 {
		return fmt.Errorf("--verify-every %s: must not be negative; 0 means never", s.every)
	}
	return nil
}

// prepareStanding makes what verifies the configuration in force, as reviewer reviews
// changes of it, and what follows rollouts.
func (g *guard) prepareStanding(config *rest.Config, reviewer review.Reviewer) error {
	log, budget := g.log.WithName("standing"), watchloop.NewBudget()
	var err error
	g.standing, err = standing.New(standing.Options{
		Reviewer: reviewer,
		Store:    g.registries,
		Outlet:   watchloop.Outlet{Reporter: watchloop.Events(g.kube.EventsV1(), standing.Author(g.replica), &theGuard), Budget: budget, Log: log},
		Unseen:   g.unreviewed.Unseen,
		Every:    g.options.standing.every,
		Log:      log,
		Metrics:  g.registry,
	})
	if err != nil {
		return err
	}
	log = g.log.WithName("rollouts")
	g.follower, err = rollouts.NewFollower(rollouts.Options{
		Source: g.cluster, Differs: g.unreviewed.SuspectTarget, Log: log, Metrics: g.registry,
		Outlet: watchloop.Outlet{Reporter: watchloop.Events(g.kube.EventsV1(), rollouts.Author(g.replica), nil), Budget: budget, Log: log},
	})
	if err == nil && g.options.standing.elect {
		g.election, err = election.New(config, webhook.Namespace, g.replica, g.log.WithName("election"))
	}
	return err
}

// verify keeps fresh what the configuration in force rests on and, where this process is to,
// reports what changes, until ctx ends.
// It waits for the credentials and the trust of the nodes: under others, nothing that
// is known would count.
func (g *guard) verify(ctx context.Context) {
	if g.cluster.WaitReady(ctx) != nil || g.world.Trust.WaitReady(ctx) != nil {
		return // ctx has ended
	}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { g.standing.Keep(ctx) })
	if g.election != nil {
		loops.Go(func() { g.election.Run(ctx, g.lead) })
		return
	}
	loops.Go(func() { g.lead(ctx) })
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
