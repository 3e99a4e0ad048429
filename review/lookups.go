package review

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
)

// A NextLookups function returns the locations still to be looked up, given the known facts:
// Lookups of a plan, or rules.Decisive.
type NextLookups func(policy.Facts) []mirrors.Location

// A renewal is the second look at misses that were remembered, before they deny a change. The zero value
// is none.
type renewal struct {
	decisive NextLookups
	// since is when the review began, or a moment before: a fact learned after that, by another review
	// perhaps, is an answer to this one.
	since time.Time
}

// mostAsked are as many as are kept fresh (presence.MaxKept).
const mostAsked = 50_000

func mostImportant(asked []mirrors.Location) []mirrors.Location {
	if len(asked) > mostAsked {
		return slices.Clone(asked[:mostAsked]) // without the memory of the rest
	}
	return asked
}

// judge decides plan by the facts. What Registries remember counts if it was learned since, or until it decides.
func (r *Reviewer) judge(ctx context.Context, registries Registries, plan plan.ChangePlan, since time.Time) Record {
	facts, asked := r.lookUp(ctx, registries, plan.Lookups, renewal{func(facts policy.Facts) []mirrors.Location { return rules.Decisive(plan.Plan, facts) }, since})
	record := Record{Plan: plan, Facts: facts, Asked: mostImportant(asked), Notes: r.notes()}
	if r.Told > 0 {
		record.Verdict = rules.DecideInBrief(plan, facts, r.Told)
	} else {
		record.Verdict = rules.Decide(plan, facts)
	}
	return record
}

// LookUp looks up what next names until it names nothing more, or ctx ends, round by
// round: what a later round looks up depends on the answers to the one before. It returns
// the facts and the locations that were looked up, in order. A location that gives no
// answer is Unknown, and is not looked up twice.
func (r *Reviewer) LookUp(ctx context.Context, next NextLookups) (policy.Facts, []mirrors.Location) {
	return r.lookUp(ctx, r.Registries, next, renewal{})
}

const (
	// maxAskedAgain bounds the images that a round asks for on purpose. Those beyond are asked for once a minute
	// in the background, as all bad news is.
	maxAskedAgain = 256
	// askTimeout is what a registry may take that is slow but not dead.
	askTimeout = 20 * time.Second
)

// AskAgain looks up images of a plan once more that look lost, the most important first.
func (r *Reviewer) AskAgain(ctx context.Context, plan plan.Plan, doubtful []evidence.Reroute) policy.Facts {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	plan.Reroutes = doubtful[:min(len(doubtful), maxAskedAgain)]
	facts, _ := r.LookUp(ctx, plan.Lookups)
	return facts
}

// LookUpParts is LookUp for several functions at once: none waits for the answers to another.
func (r *Reviewer) LookUpParts(ctx context.Context, parts []NextLookups) (policy.Facts, []mirrors.Location) {
	facts, asked := make([]policy.Facts, len(parts)), make([][]mirrors.Location, len(parts))
	failed := make([]error, len(parts))
	var group sync.WaitGroup
	for i, next := range parts {
		group.Go(func() {
			failed[i] = panics.Recovered(func() error {
				facts[i], asked[i] = r.LookUp(ctx, next)
				return nil
			})
		})
	}
	group.Wait()
	if err := cmp.Or(failed...); err != nil {
		panic(err) // where the caller can recover
	}
	all := policy.Facts{}
	var order []mirrors.Location
	for i := range parts {
		for _, l := range asked[i] {
			known := all[l]
			if known == nil {
				order = append(order, l)
			}
			if known == nil || known.Presence == policy.Unknown {
				all[l] = facts[i][l]
			}
		}
	}
	return all, order
}

// lookUp also repeats the lookups that a renewal names, if there is one, once next names
// nothing more: until then misses that Registries remember are good enough.
func (r *Reviewer) lookUp(ctx context.Context, registries Registries, next NextLookups, again renewal) (policy.Facts, []mirrors.Location) {
	facts := policy.Facts{}
	var asked []mirrors.Location
	repeated := map[mirrors.Location]bool{}
	for ctx.Err() == nil {
		if lookups := next(facts); len(lookups) > 0 {
			if len(facts) == 0 {
				facts = make(policy.Facts, len(lookups))
			}
			asked = append(asked, lookups...)
			learn(facts, lookups, registries.Presence(ctx, lookups, policy.Freshness{Recalled: again.decisive != nil}))
			continue
		}
		if again.decisive == nil {
			break
		}
		lookups := slices.DeleteFunc(again.decisive(facts), func(l mirrors.Location) bool { return repeated[l] })
		if len(lookups) == 0 {
			break
		}
		for _, l := range lookups {
			repeated[l] = true
		}
		learn(facts, lookups, registries.Presence(ctx, lookups, policy.Freshness{Since: again.since}))
	}
	return facts, asked
}

// learn enters the answers to lookups into facts. A location without an answer keeps a
// recalled fact.
func learn(facts policy.Facts, lookups []mirrors.Location, answers policy.Facts) {
	for _, l := range lookups {
		fact := answers[l]
		if fact == nil && facts.At(l).Recalled {
			continue
		}
		if fact == nil {
			fact = &silence
		}
		facts[l] = fact
	}
}

// silence is the fact about a location that was still being asked when time ran out.
var silence = policy.Fact{Detail: "no answer yet"}
