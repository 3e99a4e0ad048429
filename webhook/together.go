package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// decidingTime is kept back from a review for deciding together with other changes: some
// requests to the API server, and a review for which the registries have been asked already.
const decidingTime = time.Second

// togetherNote goes with a refusal on account of changes that are not in force yet, as it is not
// known whether they ever will be.
const togetherNote = "a change admitted a moment ago is not in force yet; if another webhook refused it, apply again in some seconds"

// edits returns the recent edits.
func (h *Handler) edits() *recent.Edits {
	h.once.Do(func() {
		if h.Recent == nil {
			h.Recent = recent.New(recent.Options{})
		}
	})
	return h.Recent
}

// isDenial reports whether the rules deny the change of r, whatever the mode.
func isDenial(r review.Record) bool { return !r.Verdict.Allowed || words.Waived(r.Verdict) }

// A candidate is a change that is being decided on: alone, and then among the changes that were admitted and may not
// be stored yet, here or by another replica (package recent).
type candidate struct {
	*Handler

	request  *request
	edit     mirrors.Edit
	override *overrideCheck
	reviewer Reviewer
	turn     *recent.Turn // nil until it is its turn
}

// decide has the change that r asks for reviewed alone and, if it would be admitted, among others. That second
// step takes one change at a time; it is fast, as the registries have been asked by then. A refusal
// that is overridden counts as an admission.
func (h *Handler) decide(ctx context.Context, r *request, edit mirrors.Edit, o *overrideCheck) (review.Record, error) {
	c := &candidate{Handler: h, request: r, edit: edit, override: o, reviewer: h.Reviewer}
	look := c.edits().View
	if r.isDryRun() {
		c.reviewer = cmp.Or(h.DryRuns, h.Reviewer)
		look = c.edits().CurrentView // it adds nothing, so nothing else would find out that the view was taken too early
	}
	view, _ := look(ctx) // an error matters only if the change would be admitted, and the view is renewed then
	record, err := c.reviewAlone(ctx)
	if err != nil {
		return record, err
	}
	c.edits().Observe(record.Change.Before, record.Read)
	if !c.mayPass(ctx, record) {
		return record, nil
	}
	if c.override.mayMatter() { // its right is asked for after any waiting
		var cancel context.CancelFunc
		ctx, cancel = review.KeepBack(ctx, authorizationTime)
		defer cancel()
	}
	if c.turn, err = c.edits().Turn(ctx, edit, r.isDryRun()); err != nil {
		return review.Record{}, err
	}
	defer c.turn.End()
	for {
		verdict, others, err := c.reviewAmong(ctx, &view, &record)
		switch {
		case err != nil, c.request.isDryRun():
			return verdict, err
		case !c.mayPass(ctx, verdict):
			if !others || c.yield(ctx, view) != nil {
				return verdict, nil
			}
		default:
			if err = c.admit(ctx, view, record, verdict); !errors.Is(err, recent.ErrChanged) {
				return verdict, err
			}
		}
		view = recent.View{} // out of date
	}
}

// reviewAlone reviews the change in the time of ctx, less the time that is needed afterwards: registries
// that do not answer use up all they are given.
func (c *candidate) reviewAlone(ctx context.Context) (review.Record, error) {
	ctx, cancel := c.override.keepBack(ctx)
	defer cancel()
	if c.request.isDryRun() {
		return c.dryRuns.review(ctx, c)
	}
	return c.reviewer.Review(ctx, c.edit, c.request.requester())
}

// mayPass reports whether the change of r would be admitted.
func (c *candidate) mayPass(ctx context.Context, r review.Record) bool {
	return r.Verdict.Allowed || c.override.honours(ctx, r)
}

// reviewAmong returns the verdict on the change with the edits in view, and whether a refusal is because of
// them. It holds the right to decide, for which all others wait, so that its reviews come before theirs. Both view and
// record, the review of the change alone, are brought up to date first if something may have been admitted since,
// except for a dry run, after which nothing can go wrong.
func (c *candidate) reviewAmong(ctx context.Context, view *recent.View, record *review.Record) (verdict review.Record, others bool, err error) {
	ctx = fairshare.First(ctx)
	if upToDate := view.Fresh(record.Read) || c.request.isDryRun() && view.Known(); !upToDate {
		if *view, err = c.edits().AwaitView(ctx); err != nil {
			return review.Record{}, false, err
		}
		renewed, err := c.reviewer.Renew(ctx, c.edit, c.request.requester(), *record)
		if err != nil || !c.mayPass(ctx, renewed) {
			return renewed, false, err
		}
		*record = renewed
	}
	verdict = *record
	for _, edits := range view.Alternatives(ctx, c.edit, record.Change.Before, record.Read, c.request.isDryRun()) {
		with, err := c.reviewer.Review(ctx, c.edit.With(edits...), c.request.requester())
		if err != nil {
			return with, true, err
		}
		worse := isDenial(with) && !isDenial(verdict) // and admitted because of the mode or an override, if it is
		if worse {
			with.Notes = append(slices.Clone(with.Notes), togetherNote)
		}
		if !c.mayPass(ctx, with) {
			return with, true, nil
		}
		if worse {
			verdict = with // which has to be recorded
		}
	}
	return verdict, false, nil
}

// yield waits for the outcome of the changes in view, while there is time to decide after that.
func (c *candidate) yield(ctx context.Context, view recent.View) error {
	waiting, cancel := review.KeepBack(ctx, decidingTime)
	defer cancel()
	return c.turn.Yield(ctx, waiting, view)
}

// admit has the change count as admitted; record is its review alone, verdict the one that counts.
func (c *candidate) admit(ctx context.Context, view recent.View, record, verdict review.Record) error {
	if !c.request.commit() {
		return context.DeadlineExceeded
	}
	change := recent.Change{Edit: c.edit, InForce: record.Change.Before, Read: record.Read, Confirms: c.request.confirms(record.Change.Before), Turn: c.turn}
	if !verdict.Verdict.Allowed {
		c.override.follow(&change, verdict.Refusal)
	}
	err := c.edits().Add(ctx, view, change)
	if errors.Is(err, recent.ErrChanged) {
		c.request.fate.CompareAndSwap(committed, 0) // nobody counts it as admitted: it is judged again, and may come too late
	}
	return err
}
