package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// An InForceReader reads the configuration in force. A Reviewer may be one: it is then not
// asked for another review where nothing has changed since the first.
type InForceReader interface {
	ReadInForce(ctx context.Context) (mirrors.Set, error)
}

// decidingTime is kept back from a review for deciding together with other changes: some
// requests to the API server, and a review that finds the registries asked.
const decidingTime = time.Second

// togetherNote goes with a refusal on account of changes that are not in force yet, as it is not
// known whether they ever will be.
const togetherNote = "a change admitted a moment ago is not in force yet; if another webhook refused it, apply again in some seconds"

func (h *Handler) ask(ctx context.Context, edit mirrors.Edit, by policy.Requester) (review.Record, error) {
	if r, ok := h.Reviewer.(RequesterReviewer); ok {
		return r.ReviewFor(ctx, edit, by)
	}
	return h.Reviewer.Review(ctx, edit)
}

// edits returns the recent edits.
func (h *Handler) edits() *recent.Edits {
	h.once.Do(func() {
		if h.Recent == nil {
			h.Recent = recent.New(recent.Options{})
		}
	})
	return h.Recent
}

// isDenial reports whether the rules deny what r is about, whatever the mode.
func isDenial(r review.Record) bool { return !r.Verdict.Allowed || r.Verdict.Waived() }

// A judging judges one change, alone and together with others.
type judging struct {
	*Handler

	edit   mirrors.Edit
	by     policy.Requester
	dryRun bool
	o      *overriding
}

// judge reviews p alone and, if it would be admitted, together with what was admitted and may
// not be stored yet, here or by another replica: see package recent. That second step takes one
// change at a time; it is fast, as the registries have been asked by then. A refusal that o
// covers counts as an admission.
func (h *Handler) judge(ctx context.Context, p proposal, by policy.Requester, dryRun bool, o *overriding) (review.Record, error) {
	j := judging{h, p.edit, by, dryRun, o}
	look, _ := h.edits().Look(ctx) // an error matters only if the change would be admitted; it is looked again then
	record, err := j.askAlone(ctx)
	if err != nil {
		return record, err
	}
	h.edits().Observe(record.Change.Before, record.Read)
	if !j.admits(ctx, record) {
		return record, nil
	}
	if err := h.edits().Acquire(ctx); err != nil {
		return review.Record{}, err
	}
	defer h.edits().Release()
	for {
		verdict, err := j.together(ctx, &look, &record)
		if err != nil || dryRun || !j.admits(ctx, verdict) {
			return verdict, err
		}
		err = h.edits().Add(ctx, look, p.edit, record.Change.Before, record.Read)
		if !errors.Is(err, recent.ErrChanged) {
			return verdict, err
		}
		look = recent.Look{} // it is out of date
	}
}

// admits reports whether the change that r is about would be admitted.
func (j judging) admits(ctx context.Context, r review.Record) bool {
	return r.Verdict.Allowed || j.o.honours(ctx, r)
}

// askAlone reviews the change in the time of ctx, less what is needed afterwards: registries
// that do not answer take all the time there is.
func (j judging) askAlone(ctx context.Context) (review.Record, error) {
	reserve := decidingTime
	if j.o.mayMatter() {
		reserve += authorizationTime
	}
	ctx, cancel := keepBack(ctx, reserve)
	defer cancel()
	return j.ask(ctx, j.edit, j.by)
}

// keepBack returns a context that ends so much before ctx does, or after half of the time that
// ctx has.
func keepBack(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-keptBack(d, time.Until(end))))
}

// keptBack returns how much of the time left is kept back where d is wanted.
func keptBack(d, left time.Duration) time.Duration { return min(d, left/2) }

// together returns the verdict on the change with what look holds. Both look and record, which
// is about the change alone, are brought up to date first if something may have been admitted
// since, save for a dry run, after which nothing can go wrong.
func (j judging) together(ctx context.Context, look *recent.Look, record *review.Record) (review.Record, error) {
	verdict := *record
	if upToDate := look.Fresh(record.Read) || j.dryRun && look.Known(); !upToDate {
		renewed, err := j.renew(ctx, look, *record)
		if err != nil || !j.admits(ctx, renewed) {
			return renewed, err
		}
		verdict, *record = renewed, renewed
	}
	others := look.Others(j.edit, record.Change.Before, record.Read)
	if len(others) == 0 {
		return verdict, nil
	}
	with, err := j.ask(ctx, j.edit.With(others...), j.by)
	if err != nil {
		return with, err
	}
	if isDenial(with) && !isDenial(verdict) {
		with.Notes = append(slices.Clone(with.Notes), togetherNote)
	}
	if !j.admits(ctx, with) {
		return with, nil
	}
	return worse(verdict, with), nil
}

// worse returns b if the rules deny it and not a: it is admitted because of the mode or an
// override, and is to be recorded. Otherwise it returns a.
func worse(a, b review.Record) review.Record {
	if isDenial(b) && !isDenial(a) {
		return b
	}
	return a
}

// renew looks again, and reviews the change again unless the configuration in force is still
// the one of record.
func (j judging) renew(ctx context.Context, look *recent.Look, record review.Record) (review.Record, error) {
	var err error
	if *look, err = j.edits().LookUntil(ctx); err != nil {
		return review.Record{}, err
	}
	if reader, ok := j.Reviewer.(InForceReader); ok {
		read := time.Now()
		set, err := reader.ReadInForce(ctx)
		if err != nil {
			return review.Record{}, err
		}
		if set.Equal(record.Change.Before) {
			record.Read = read
			return record, nil
		}
	}
	return j.ask(ctx, j.edit, j.by)
}
