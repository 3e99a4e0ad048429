package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
func isDenial(r review.Record) bool { return !r.Verdict.Allowed || r.Verdict.Waived() }

// A judgement is the review of one change, alone and together with others.
type judgement struct {
	*Handler

	request *request
	edit    mirrors.Edit
	o       *overrideCheck
	seat    *recent.Seat  // nil for none
	claim   *recent.Claim // nil for none
}

// judge reviews the change alone and, if it would be admitted, together with the changes that were
// admitted and may not be stored yet, here or by another replica: see package recent. That second
// step takes one change at a time; it is fast, as the registries have been asked by then. A refusal
// that o covers counts as an admission.
func (h *Handler) judge(ctx context.Context, r *request, p proposal, o *overrideCheck) (review.Record, error) {
	j := judgement{Handler: h, request: r, edit: p.edit, o: o}
	view, _ := j.firstView(ctx) // an error matters only if the change would be admitted, and the view is renewed then
	record, err := j.askAlone(ctx)
	if err != nil {
		return record, err
	}
	h.edits().Observe(record.Change.Before, record.Read)
	if !j.admits(ctx, record) {
		return record, nil
	}
	defer func() { j.seat.Leave() }()
	if err := j.takeSeat(ctx); err != nil {
		return review.Record{}, err
	}
	if err := h.edits().Acquire(ctx); err != nil {
		return review.Record{}, err
	}
	defer h.edits().Release()
	defer func() {
		if j.claim != nil {
			j.claim.Withdraw()
		}
	}()
	return j.decide(ctx, view, record)
}

// firstView returns the recent edits before the change is reviewed. A dry run adds nothing, so
// nothing else would find out that the view was taken too early.
func (j *judgement) firstView(ctx context.Context) (recent.View, error) {
	if j.request.isDryRun() {
		return j.edits().CurrentView(ctx)
	}
	return j.edits().View(ctx)
}

// takeSeat waits until the sender may have one more change admitted. It comes before the right to
// decide, which slows down only those senders whose changes are never stored.
func (j *judgement) takeSeat(ctx context.Context) (err error) {
	if j.request.isDryRun() {
		return nil
	}
	if j.seat == nil {
		j.seat, err = j.edits().TakeSeat(ctx)
	} else {
		j.seat, err = j.seat.Retake(ctx)
	}
	return err
}

// decide decides on the change together with others; record is the review of the change alone. It
// holds the right to decide, except while it waits.
func (j *judgement) decide(ctx context.Context, view recent.View, record review.Record) (review.Record, error) {
	for {
		verdict, others, err := j.together(ctx, &view, &record)
		switch {
		case err != nil, j.request.isDryRun():
			return verdict, err
		case !j.admits(ctx, verdict):
			if !others || j.await(ctx, view) != nil {
				return verdict, nil
			}
		default:
			if err = j.add(ctx, view, record); !errors.Is(err, recent.ErrChanged) {
				return verdict, err
			}
		}
		view = recent.View{} // out of date
	}
}

// await waits for the outcome of the changes that have this one refused: once they are in force the
// refusal is final, and if they never are, there is nothing to refuse. Changes whose turn is later do
// not get in its way meanwhile.
func (j *judgement) await(ctx context.Context, view recent.View) error {
	if !j.edits().MayClaim(ctx) {
		return errors.New("earlier changes of this sender were never stored, so this one does not wait")
	}
	if j.claim == nil {
		j.claim = j.edits().Claim(ctx, j.edit)
	}
	j.edits().Release()
	j.seat.Leave() // others have changes admitted meanwhile
	waiting, cancel := review.KeepBack(ctx, decidingTime)
	err := j.claim.Await(waiting, view)
	cancel()
	if err == nil {
		err = j.takeSeat(ctx)
	}
	if acquireErr := j.edits().Acquire(context.WithoutCancel(ctx)); err == nil {
		err = acquireErr
	}
	return err
}

// change returns the change to add; r is the review of the change alone.
func (j *judgement) change(r review.Record) recent.Change {
	c := recent.Change{Edit: j.edit, InForce: r.Change.Before, Read: r.Read, Confirms: j.request.isMadeIn, Seat: j.seat}
	j.o.follow(&c)
	return c
}

// add adds the change; r is the review of the change alone.
func (j *judgement) add(ctx context.Context, view recent.View, r review.Record) error {
	if !j.request.commit() {
		return context.DeadlineExceeded
	}
	return j.edits().Add(ctx, view, j.change(r))
}

// reviewer returns who reviews the change.
func (j *judgement) reviewer() Reviewer {
	if j.request.isDryRun() && j.DryRuns != nil {
		return j.DryRuns
	}
	return j.Reviewer
}

// admits reports whether the change of r would be admitted.
func (j *judgement) admits(ctx context.Context, r review.Record) bool {
	return r.Verdict.Allowed || j.o.honours(ctx, r)
}

// askAlone reviews the change in the time of ctx, less the time that is needed afterwards: registries
// that do not answer use up all they are given.
func (j *judgement) askAlone(ctx context.Context) (review.Record, error) {
	ctx, cancel := j.o.keepBack(ctx)
	defer cancel()
	if j.request.isDryRun() {
		return j.reviewDryRun(ctx, j.reviewer(), j.request, j.edit, j.request.requester())
	}
	return j.reviewer().Review(ctx, j.edit, j.request.requester())
}

// together returns the verdict on the change with the edits in view, and whether a refusal is because of
// them. It holds the right to decide, for which all others wait, so that its reviews come before theirs. Both view and record, the review of the change alone, are brought up to date first if
// something may have been admitted since, except for a dry run, after which nothing can go wrong.
func (j *judgement) together(ctx context.Context, view *recent.View, record *review.Record) (verdict review.Record, others bool, err error) {
	verdict = *record
	if upToDate := view.Fresh(record.Read) || j.request.isDryRun() && view.Known(); !upToDate {
		renewed, err := j.renew(ctx, view, *record)
		if err != nil || !j.admits(ctx, renewed) {
			return renewed, false, err
		}
		verdict, *record = renewed, renewed
	}
	for _, edits := range j.alternatives(ctx, *view, *record) {
		with, err := j.reviewer().Review(fairshare.First(ctx), j.edit.With(edits...), j.request.requester())
		if err != nil {
			return with, true, err
		}
		if isDenial(with) && !isDenial(verdict) {
			with.Notes = append(slices.Clone(with.Notes), togetherNote)
		}
		if !j.admits(ctx, with) {
			return with, true, nil
		}
		verdict = worse(verdict, with)
	}
	return verdict, false, nil
}

// alternatives returns the lists of edits with which the change has to be judged. They include the
// edits of senders whose turn is first, each by itself, as they may conflict with each other.
func (j *judgement) alternatives(ctx context.Context, view recent.View, r review.Record) [][]mirrors.Edit {
	if j.request.isDryRun() {
		view = view.Admitted()
	}
	others := view.Others(j.edit, r.Change.Before, r.Read)
	all := orders(others)
	for _, claim := range view.Claims(ctx, j.edit) {
		all = append(all, append(slices.Clone(others), claim))
	}
	return all
}

// orders returns the orders in which edits may be stored: if several are of one object, any of
// them may be the last one.
func orders(edits []mirrors.Edit) [][]mirrors.Edit {
	if len(edits) == 0 {
		return nil
	}
	all := [][]mirrors.Edit{edits}
	for i, e := range edits {
		if slices.ContainsFunc(edits[:i], e.Overlaps) {
			reversed := slices.Clone(edits)
			slices.Reverse(reversed)
			return append(all, reversed)
		}
	}
	return all
}

// worse returns b if the rules deny it and not a: b is then admitted because of the mode or an
// override, and has to be recorded. Otherwise it returns a.
func worse(a, b review.Record) review.Record {
	if isDenial(b) && !isDenial(a) {
		return b
	}
	return a
}

// renew renews the view, and reviews the change again unless the configuration in force is still
// the one of record.
func (j *judgement) renew(ctx context.Context, view *recent.View, record review.Record) (review.Record, error) {
	var err error
	if *view, err = j.edits().AwaitView(ctx); err != nil {
		return review.Record{}, err
	}
	return j.reviewer().Renew(fairshare.First(ctx), j.edit, j.request.requester(), record)
}
