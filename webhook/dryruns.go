package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// dryRuns are the reviews of dry runs under way. Tools make the same dry run many times at once, and a review may
// take much memory: a request for one that is being judged shares its record. Nothing is kept once that is there.
// The zero value has none.
type dryRuns struct {
	mu    sync.Mutex
	under map[dryRunKey]*dryRunReview
}

// A dryRunKey identifies a dry run and its requester.
type dryRunKey [sha256.Size]byte

// A dryRunReview is a review under way that others may share.
type dryRunReview struct {
	began, ends time.Time // ends is zero for one without a deadline
	done        chan struct{}
	record      review.Record // once done, unless there is an err
	err         error
}

// keyOf returns the key of r: all of it that a review depends on. An API server gives each creation a uid and a time
// of its own.
func (r *request) keyOf(known bool) (dryRunKey, error) {
	m, hash := r.subject(), sha256.New()
	err := json.NewEncoder(hash).Encode([]any{r.Operation, r.step, r.Kind, r.Namespace, m.nameOr(r.Name), m.generation, m.labels, m.override, r.UserInfo, known})
	_, _ = hash.Write(r.put.spec) // which never fails
	return dryRunKey(hash.Sum(nil)), err
}

// review returns the record of key and whether it is another caller's, whose configuration may be out of date by now.
func (d *dryRuns) review(ctx context.Context, key dryRunKey, judge func() (review.Record, error)) (_ review.Record, shared bool, err error) {
	for {
		own, other := d.begin(ctx, key)
		if other == nil {
			return d.lead(key, own, judge)
		}
		select {
		case <-other.done:
			if other.err == nil {
				return other.record, true, nil
			} // its caller has left, or had less time
		case <-ctx.Done():
			return review.Record{}, false, ctx.Err()
		}
	}
}

// begin returns a review of key that others may share from now on, or else one that is under way already.
func (d *dryRuns) begin(ctx context.Context, key dryRunKey) (own, other *dryRunReview) {
	ends, _ := ctx.Deadline()
	own = &dryRunReview{began: time.Now(), ends: ends, done: make(chan struct{}), err: errors.New("there is no record")}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other = d.under[key]; other != nil && own.mayShare(other) {
		return nil, other
	}
	if d.under == nil {
		d.under = map[dryRunKey]*dryRunReview{}
	}
	d.under[key] = own
	return own, nil
}

// mayShare reports whether other tells as much as r would: it has about as much time, and no misses that are too old.
func (r *dryRunReview) mayShare(other *dryRunReview) bool {
	return r.began.Sub(other.began) < DryRunMisses && (other.ends.IsZero() || !r.ends.IsZero() && r.ends.Sub(other.ends) < DryRunMisses)
}

// lead makes own, for all that share it. If judge panics, they have no record.
func (d *dryRuns) lead(key dryRunKey, own *dryRunReview, judge func() (review.Record, error)) (review.Record, bool, error) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.under[key] == own {
			delete(d.under, key)
		}
		close(own.done)
	}()
	own.record, own.err = judge()
	return own.record, false, own.err
}

// reviewDryRun reviews an edit like Reviewer.Review, or shares the record of one that is the same and under way.
func (h *Handler) reviewDryRun(ctx context.Context, by Reviewer, r *request, edit mirrors.Edit, who policy.Requester) (review.Record, error) {
	judge := func() (review.Record, error) { return by.Review(ctx, edit, who) }
	key, err := r.keyOf(isKnown(ctx))
	if err != nil {
		return judge()
	}
	record, shared, err := h.dryRuns.review(ctx, key, judge)
	if err != nil || !shared {
		return record, err
	}
	return by.Renew(ctx, edit, who, record)
}
