package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

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
func (r *request) keyOf(known bool) dryRunKey {
	m, hash := r.subject(), sha256.New()
	_ = json.NewEncoder(hash).Encode([]any{
		r.Operation, r.isRemoval(), r.Kind, r.Namespace, m.nameOr(r.Name), m.Metadata.Generation, m.Metadata.Labels.all, m.Metadata.Annotations, r.UserInfo, known,
	}) // it cannot fail
	fmt.Fprintf(hash, "%s", r.put.Spec)
	return dryRunKey(hash.Sum(nil))
}

// review reviews the change of a dry run alone, or shares the record of one that is the same and under way, as of now.
func (d *dryRuns) review(ctx context.Context, c *candidate) (review.Record, error) {
	key, by := c.request.keyOf(isKnown(ctx)), c.request.requester()
	for {
		own, other := d.begin(ctx, key)
		if other == nil {
			defer d.end(key, own) // without a record if the review panics
			own.record, own.err = c.reviewer.Review(ctx, c.edit, by)
			return own.record, own.err
		}
		select {
		case <-other.done:
			if other.err == nil {
				return c.reviewer.Renew(ctx, c.edit, by, other.record)
			} // its caller has left, or had less time
		case <-ctx.Done():
			return review.Record{}, ctx.Err()
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

// end gives own to all that share it.
func (d *dryRuns) end(key dryRunKey, own *dryRunReview) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under[key] == own {
		delete(d.under, key)
	}
	close(own.done)
}
