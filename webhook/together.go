package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// decidingTime is kept back from a review for deciding together with other changes: some
// requests to the API server, and a review that finds the registries asked.
const decidingTime = time.Second

// removalLook is how long what replicas share is waited for where an object is taken away.
const removalLook = 2 * time.Second

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

// isDenial reports whether the rules deny what r is about, whatever the mode.
func isDenial(r review.Record) bool { return !r.Verdict.Allowed || r.Verdict.Waived() }

// A judging judges one change, alone and together with others.
type judging struct {
	*Handler

	request *request
	edit    mirrors.Edit
	o       *overriding
	seat    *recent.Seat  // nil for none
	claim   *recent.Claim // nil for none
	tries   int
}

// judge reviews the change alone and, if it would be admitted, together with what was admitted and
// may not be stored yet, here or by another replica: see package recent. That second step takes one
// change at a time; it is fast, as the registries have been asked by then. A refusal that o
// covers counts as an admission.
func (h *Handler) judge(ctx context.Context, r *request, p proposal, o *overriding) (review.Record, error) {
	j := judging{Handler: h, request: r, edit: p.edit, o: o}
	look, _ := j.firstLook(ctx) // an error matters only if the change would be admitted; it is looked again then
	record, err := j.askAlone(ctx)
	if err != nil {
		return record, err
	}
	h.edits().Observe(record.Change.Before, record.Read)
	if !j.admits(ctx, record) {
		return record, nil
	}
	defer func() { j.seat.Leave() }()
	if err := j.enter(ctx); err != nil {
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
	return j.decide(ctx, look, record)
}

// firstLook looks before the change is reviewed. A dry run adds nothing, and so is not told that it
// was looked at too early.
func (j *judging) firstLook(ctx context.Context) (recent.Look, error) {
	if j.request.isDryRun() {
		return j.edits().LookNow(ctx)
	}
	return j.edits().Look(ctx)
}

// enter waits until the sender may have one more change admitted. It comes before the right to
// decide, so that those whose changes never come are slowed down and no others. A removal is waited
// for a moment only.
func (j *judging) enter(ctx context.Context) (err error) {
	if j.request.isDryRun() {
		return nil
	}
	if j.request.isRemoval() {
		short, cancel := context.WithTimeout(ctx, removalLook)
		defer cancel()
		ctx = short
	}
	if j.seat == nil {
		j.seat, err = j.edits().Enter(ctx)
	} else {
		j.seat, err = j.seat.Again(ctx)
	}
	return j.unlessRemoval(err)
}

// decide decides together with others on the change that record is about alone. It holds the right
// to decide, save while it waits.
func (j *judging) decide(ctx context.Context, look recent.Look, record review.Record) (review.Record, error) {
	for {
		verdict, others, err := j.together(ctx, &look, &record)
		switch {
		case err != nil, j.request.isDryRun():
			return verdict, err
		case !j.admits(ctx, verdict):
			if !others || j.await(ctx, look) != nil {
				return verdict, nil
			}
		default:
			err = j.add(ctx, look, record)
			if added := j.added(err, record); added || !errors.Is(err, recent.ErrChanged) {
				return verdict, j.unlessRemoval(err)
			}
		}
		look = recent.Look{} // it is out of date
	}
}

// await waits for something to become of the changes without which this one is admitted: once they
// are in force it is known what is wrong, and if they never come, nothing is. Those whose turn is
// later do not get in its way meanwhile.
func (j *judging) await(ctx context.Context, look recent.Look) error {
	if !j.edits().MayClaim(ctx) {
		return errors.New("it is not the turn of who sends such as never come")
	}
	if j.claim == nil {
		j.claim = j.edits().Claim(ctx, j.edit)
	}
	j.edits().Release()
	j.seat.Leave() // others have changes admitted meanwhile
	waiting, cancel := review.KeepBack(ctx, decidingTime)
	err := j.claim.Await(waiting, look)
	cancel()
	if err == nil {
		err = j.enter(ctx)
	}
	if again := j.edits().Acquire(context.WithoutCancel(ctx)); err == nil {
		err = again
	}
	return err
}

// change is what is added of the change that r is about alone.
func (j *judging) change(r review.Record) recent.Change {
	c := recent.Change{Edit: j.edit, InForce: r.Change.Before, Read: r.Read, Confirms: j.request.isMadeIn, Seat: j.seat}
	j.o.follow(&c)
	return c
}

// add adds the change that r is about alone. A removal whose sender has no seat does without what
// replicas share.
func (j *judging) add(ctx context.Context, look recent.Look, r review.Record) error {
	if !j.request.commit() {
		return context.DeadlineExceeded
	}
	c := j.change(r)
	if j.seat == nil {
		j.edits().AddHere(c)
		return nil
	}
	return j.edits().Add(ctx, look, c)
}

// maxTries is how often a removal is added to what replicas share before it does without.
const maxTries = 3

// added reports whether the change that r is about alone counts from now on, err being what came
// of adding it. What takes an object away is not kept waiting by a list that changes all the time,
// or cannot be read.
func (j *judging) added(err error, r review.Record) bool {
	if j.tries++; err == nil || !j.request.isRemoval() || j.tries < maxTries {
		return err == nil
	}
	j.edits().AddHere(j.change(r))
	return true
}

// unlessRemoval returns err, or nil if the change only takes an object away: that must be possible
// whatever is wrong with what replicas share.
func (j *judging) unlessRemoval(err error) error {
	if j.request.isRemoval() {
		return nil
	}
	return err
}

// admits reports whether the change that r is about would be admitted.
func (j *judging) admits(ctx context.Context, r review.Record) bool {
	return r.Verdict.Allowed || j.o.honours(ctx, r)
}

// askAlone reviews the change in the time of ctx, less what is needed afterwards: registries
// that do not answer take all the time there is.
func (j *judging) askAlone(ctx context.Context) (review.Record, error) {
	reserve := decidingTime
	if j.o.mayMatter() {
		reserve += authorizationTime
	}
	ctx, cancel := review.KeepBack(ctx, reserve)
	defer cancel()
	return j.Reviewer.Review(ctx, j.edit, j.request.requester())
}

// together returns the verdict on the change with what look holds, and whether it is because of
// that. Both look and record, which is about the change alone, are brought up to date first if
// something may have been admitted since, save for a dry run, after which nothing can go wrong.
func (j *judging) together(ctx context.Context, look *recent.Look, record *review.Record) (verdict review.Record, others bool, err error) {
	verdict = *record
	if upToDate := look.Fresh(record.Read) || j.request.isDryRun() && look.Known(); !upToDate {
		renewed, err := j.renew(ctx, look, *record)
		if err != nil || !j.admits(ctx, renewed) {
			return renewed, false, err
		}
		verdict, *record = renewed, renewed
	}
	for _, edits := range j.alternatives(ctx, *look, *record) {
		with, err := j.Reviewer.Review(ctx, j.edit.With(edits...), j.request.requester())
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

// alternatives returns the edits together with which the change has to be judged. These are also
// those that others wait for whose turn is first, each by itself, as they may conflict with each
// other.
func (j *judging) alternatives(ctx context.Context, look recent.Look, r review.Record) [][]mirrors.Edit {
	others := look.Others(j.edit, r.Change.Before, r.Read)
	all := orders(others)
	for _, claim := range look.Claims(ctx, j.edit) {
		all = append(all, append(slices.Clone(others), claim))
	}
	return all
}

// orders returns those in which edits may come: where several are of one object, any of
// them may be the last to be stored.
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
func (j *judging) renew(ctx context.Context, look *recent.Look, record review.Record) (review.Record, error) {
	var err error
	if *look, err = j.look(ctx); err != nil {
		return review.Record{}, err
	}
	return j.Reviewer.Renew(ctx, j.edit, j.request.requester(), record)
}

// look looks until it is known what others have admitted. A removal does with what is known
// here after a moment.
func (j *judging) look(ctx context.Context) (recent.Look, error) {
	if j.request.isRemoval() {
		short, cancel := context.WithTimeout(ctx, removalLook)
		defer cancel()
		look, err := j.edits().Look(short)
		if err != nil {
			look = j.edits().LookHere()
		}
		return look, nil
	}
	return j.edits().LookUntil(ctx)
}
