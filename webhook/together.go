package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// recentEdits are the edits that were admitted and are not stored yet, as far as is known.
// The API server stores a change only after it was admitted, so one that is reviewed in the
// meantime does not find it among the objects in force: each may be safe, but not both
// together. The zero value is empty and ready for use.
//
// It knows the edits that this process admitted, not those of another replica: see
// maxReadAge.
type recentEdits struct {
	once sync.Once
	slot chan struct{} // for the one request that decides

	mu   sync.Mutex
	list []admittedEdit
}

type admittedEdit struct {
	mirrors.Edit
	at time.Time
}

const (
	// maxStoringTime is how long storing a change may take after its admission. If another
	// webhook refuses it, it is never stored.
	maxStoringTime = 10 * time.Second
	// maxReadAge is the age beyond which what was read of the cluster is too old to admit a
	// change by. Asking registries takes seconds, in which another replica may have admitted
	// something; reviewing once more with the facts known by then takes a moment.
	maxReadAge = 250 * time.Millisecond
	// maxRecent bounds what is kept; a change of mirrors is a rare event.
	maxRecent = 64
)

// acquire waits for the right to decide, until ctx ends.
func (r *recentEdits) acquire(ctx context.Context) error {
	r.once.Do(func() {
		r.slot = make(chan struct{}, 1)
		r.slot <- struct{}{}
	})
	select {
	case <-r.slot:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change to be decided: %w", ctx.Err())
	}
}

func (r *recentEdits) release() { r.slot <- struct{}{} }

// add records e, and forgets earlier edits of the same object.
func (r *recentEdits) add(e mirrors.Edit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(a admittedEdit) bool { return a.Overlaps(e) })
	r.list = append(r.list, admittedEdit{e, time.Now()})
	r.list = slices.Delete(r.list, 0, max(0, len(r.list)-maxRecent))
}

// observe forgets the edits that were in force when the configuration was read. An edit that
// was admitted later is kept, even if the configuration looks as if it were in force: that may
// be the state before an edit in between.
func (r *recentEdits) observe(inForce mirrors.Set, read time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(a admittedEdit) bool { return a.at.Before(read) && inForce.Holds(a.Edit) })
}

// others returns the edits of other objects than that of e.
func (r *recentEdits) others(e mirrors.Edit) []mirrors.Edit {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(a admittedEdit) bool { return time.Since(a.at) >= maxStoringTime })
	var others []mirrors.Edit
	for _, a := range r.list {
		if !a.Overlaps(e) {
			others = append(others, a.Edit)
		}
	}
	return others
}

// togetherNote goes with a refusal on account of changes that are not in force yet, as nobody
// knows whether they ever will be.
const togetherNote = "a change admitted a moment ago is not in force yet; if another webhook refused it, apply again in 10 s"

func (h *Handler) ask(ctx context.Context, edit mirrors.Edit, by policy.Requester) (review.Record, error) {
	if r, ok := h.Reviewer.(RequesterReviewer); ok {
		return r.ReviewFor(ctx, edit, by)
	}
	return h.Reviewer.Review(ctx, edit)
}

// isDenial reports whether the rules deny what r is about, whatever the mode.
func isDenial(r review.Record) bool { return !r.Verdict.Allowed || r.Verdict.Waived() }

// judge reviews p alone and, if it would be admitted, together with what was admitted in the
// meantime. That second step takes one change at a time; it is fast, as the registries have
// been asked by then.
func (h *Handler) judge(ctx context.Context, p proposal, by policy.Requester, dryRun bool) (review.Record, error) {
	record, err := h.ask(ctx, p.edit, by)
	if err != nil {
		return record, err
	}
	h.recent.observe(record.Change.Before, record.Read)
	if !record.Verdict.Allowed {
		return record, nil
	}
	if err := h.recent.acquire(ctx); err != nil {
		return review.Record{}, err
	}
	defer h.recent.release()
	others := h.recent.others(p.edit)
	if len(others) > 0 || !dryRun && time.Since(record.Read) > maxReadAge {
		again, err := h.ask(ctx, p.edit.With(others...), by)
		worse := err == nil && isDenial(again) && !isDenial(record)
		if worse && len(others) > 0 {
			again.Notes = append(slices.Clone(again.Notes), togetherNote)
		}
		if err != nil || !again.Verdict.Allowed {
			return again, err
		}
		if worse {
			record = again // admitted because of the mode, and to be recorded
		}
	}
	if !dryRun {
		h.recent.add(p.edit)
	}
	return record, nil
}
