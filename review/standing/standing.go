// Package standing verifies the mirror configuration in force again and again, so that an
// image that a mirror has lost is noticed before the next pod is rescheduled.
//
// It repeats a review of the configuration in force (review.Reviewer.Standing) and never
// delays the review of a change: the Store asks registries in the background to keep facts
// fresh, and only images that look lost are looked up on purpose. Changes since the last
// report are reported as Kubernetes Events on the mirror sets and as log lines, a few for any
// number of images; the current state is in metrics.
//
// A registry that gives no answer is no news: a report about an image stands until a registry says
// otherwise, twice in a row. Nothing is kept across a restart: afterwards, lost images are reported
// once more, and others are not.
//
//	v, err := standing.New(standing.Options{Reviewer: *reviewer, Store: store, Outlet: outlet})
//	go v.Keep(ctx)        // in every replica
//	go v.Verify(leading)  // in the leader, as long as it is one
package standing

import (
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A Store remembers facts about locations. *presence.Store is one.
type Store interface {
	review.Registries
	// Known returns the facts about locations, without asking registries.
	Known([]mirrors.Location) policy.Facts
	// Keep keeps the facts about locations fresh until it is called again for the topic or
	// until ttl is over; a ttl of 0 is forever.
	Keep(topic string, locs []mirrors.Location, ttl time.Duration)
}

// Options are what New needs.
type Options struct {
	// Reviewer is how changes are reviewed. The Store is used instead of its Registries.
	Reviewer review.Reviewer
	Store    Store
	// Outlet is where the news go. Its budgets may be shared with others who report about the same
	// objects.
	Outlet watchloop.Outlet
	// Unseen says which changes may have been made without a review, "" for none. It may be nil.
	Unseen func() string
	// Every is the time between two rounds, give or take a quarter. 0 means DefaultEvery. The
	// round after an inconclusive one comes sooner.
	Every time.Duration
	// Log receives what goes wrong, and registries that stop to answer. The zero value discards it.
	Log logr.Logger
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
}

// DefaultEvery is well below the time in which a node is drained and the next begins.
const DefaultEvery = time.Minute

// A Verifier verifies the configuration in force. It keeps no state between calls of
// Verify.
type Verifier struct {
	options    Options
	reviewer   review.Reviewer // uses what the Store knows
	asking     review.Reviewer // asks registries
	metrics    *metrics
	suspicions suspicions

	keeping, verifying *watchloop.Loop
}

// New returns a Verifier. It is an error if its metrics are registered already.
func New(o Options) (*Verifier, error) {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	reviewer, asking := o.Reviewer, o.Reviewer
	asking.Registries = o.Store
	reviewer.Registries = review.RegistriesFunc(func(_ context.Context, locs []mirrors.Location) policy.Facts {
		return o.Store.Known(locs)
	})
	loop := func() *watchloop.Loop {
		return watchloop.NewLoop(o.Every, "Could not verify the configuration in force", o.Log)
	}
	return &Verifier{options: o, reviewer: reviewer, asking: asking, metrics: m, keeping: loop(), verifying: loop()}, nil
}

// Topic is the topic under which the Store keeps the facts of the configuration in force.
const Topic = "live"

// Keep tells the Store which facts the configuration in force rests on, until ctx ends.
func (v *Verifier) Keep(ctx context.Context) {
	registries := map[string]bool{}
	v.keeping.Run(ctx, func(ctx context.Context) (settled bool, err error) {
		record, err := v.Look(ctx)
		if err == nil {
			now := reachability(record)
			v.metrics.reaches(now)
			v.tellReachability(registries, now)
		}
		return !record.Facts.HasUnknown(), err
	})
}

// Verify verifies the configuration in force and reports what has changed, until ctx ends.
// Only one process should do so at a time.
func (v *Verifier) Verify(ctx context.Context) {
	v.metrics.verifies(true)
	defer v.metrics.verifies(false)
	reported := newLedger()
	v.verifying.Run(ctx, func(ctx context.Context) (settled bool, err error) {
		record, err := v.Look(ctx)
		if err != nil {
			v.metrics.round(err)
			return true, err
		}
		standings := v.askAgain(ctx, &record)
		v.metrics.found(record.Verdict, standings)
		reported.record(standings)
		err = v.report(ctx, reported)
		v.metrics.round(err)
		return !record.Facts.HasUnknown() && !reported.suspects(), err
	})
}

// lookTimeout bounds the reading of the cluster.
const lookTimeout = 30 * time.Second

// Look reviews the configuration in force by known facts, and has the Store keep them fresh.
func (v *Verifier) Look(ctx context.Context) (review.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	record, err := v.reviewer.Standing(ctx)
	if err == nil {
		err = ctx.Err() // else the record may be about half of the images
	}
	if err != nil {
		return review.Standing{}, err
	}
	v.options.Store.Keep(Topic, record.Asked, 0)
	v.metrics.knows(record.Facts)
	return record, nil
}

// askAgain returns the states of the images of r. Before that it looks up once more, as for a
// review, those that look lost, and enters the facts into r.
func (v *Verifier) askAgain(ctx context.Context, r *review.Standing) []rules.Standing {
	standings := rules.Standings(r.Plan, r.Facts)
	var doubtful []evidence.Reroute
	for _, s := range standings {
		if s.Outcome == evidence.Fails {
			doubtful = append(doubtful, s.Reroute)
		}
	}
	if len(doubtful) == 0 {
		return standings
	}
	maps.Copy(r.Facts, v.asking.AskAgain(ctx, r.Plan.Plan, doubtful))
	r.Verdict = rules.DecideStanding(r.Plan, r.Facts)
	return rules.Standings(r.Plan, r.Facts)
}

// report reports what has changed.
func (v *Verifier) report(ctx context.Context, reported *ledger) error {
	return v.options.Outlet.Pass(ctx, func(yield func(watchloop.News) bool) {
		for _, c := range reported.changes() {
			if !yield(watchloop.News{Report: c.report(v.remark()), Done: c.markReported}) {
				return
			}
		}
	})
}
