package review

import (
	"context"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

// A Standing is a verification of the configuration in force, with everything it rested on.
type Standing struct {
	Plan    plan.StandingPlan
	Facts   policy.Facts
	Asked   []mirrors.Location // the most important first
	Verdict policy.StandingVerdict
	Notes   []string
	Took    time.Duration
	mode    policy.Mode
}

// Standing verifies the configuration in force by the rules for changes: see
// plan.NewStanding. It is in no hurry (StandingPlan.Lookups).
func (r *Reviewer) Standing(ctx context.Context) (Standing, error) {
	start := time.Now()
	now, err := r.read(ctx)
	if err != nil {
		return Standing{}, err
	}
	settings := r.settings()
	plan := plan.NewStanding(now.Set, now.Cluster, settings)
	facts, asked := r.LookUp(ctx, plan.Lookups)
	return Standing{
		Plan: plan, Facts: facts, Asked: mostImportant(asked), Verdict: rules.DecideStanding(plan, facts),
		Notes: append(r.notes(), plan.ElsewhereNotes()...), Took: time.Since(start), mode: settings.Mode,
	}, nil
}

const inForce = "The mirror configuration in force"

// Document returns s as JSON. It is allowed unless it has faults; Message and Warnings are those of changes, and it has none.
func (s Standing) Document() v1alpha1.Review {
	d := s.Judged().document(inForce, s.Notes, s.Took)
	d.Allowed, d.Summary, d.Mode = !s.Verdict.HasFaults(), words.StandingSummary(s.Verdict, inForce), s.mode.String()
	return d
}

// Answer returns s for people, every finding in full.
func (s Standing) Answer() *answer.Answer {
	a := words.StandingAnswer(s.Verdict, inForce)
	a.Notes, a.Took = s.Notes, s.Took
	a.Add(answer.Drawn{Blocks: func() []answer.Block { return page.Standing(s.Document()) }})
	s.Judged().addBasis(a)
	return a
}
