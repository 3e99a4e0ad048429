package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// recentEdits are the edits that were admitted and are not stored yet, as far as is known.
// The API server stores a change after it was admitted, so one that is reviewed meanwhile
// does not find it among the objects in force: each may be safe, and both together not.
// The zero value is empty and ready.
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
	// maxStoringTime is how long after its admission a change may not be stored yet. It
	// never will be if another webhook refuses it.
	maxStoringTime = 10 * time.Second
	// maxReadAge is the age beyond which no change is admitted by what was read of the
	// cluster. To ask registries takes seconds, in which another replica may have admitted
	// something; to review once more by what is known then takes a moment.
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

// add enters e instead of what was known of its object.
func (r *recentEdits) add(e mirrors.Edit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(a admittedEdit) bool { return a.Overlaps(e) })
	r.list = append(r.list, admittedEdit{e, time.Now()})
	r.list = slices.Delete(r.list, 0, max(0, len(r.list)-maxRecent))
}

// observe forgets the edits that had been made in the configuration in force when it was
// read. One that was admitted later is kept: what it found may look the same and be what
// an edit in between has replaced.
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

// togetherNote goes with a refusal for the sake of changes that are not in force: there
// is no telling whether they ever will be.
const togetherNote = "a change admitted a moment ago is not in force yet; if another webhook refused it, apply again in 10 s"

// judge reviews p alone and, if it would be admitted, with what came meanwhile. Those
// that would be admitted are decided one after the other: what is to be known of
// registries is known by then.
func (h *Handler) judge(ctx context.Context, p proposal, dryRun bool) (review.Record, error) {
	record, err := h.Reviewer.Review(ctx, p.edit)
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
		again, err := h.Reviewer.Review(ctx, p.edit.With(others...))
		if err == nil && !again.Verdict.Allowed && len(others) > 0 {
			again.Notes = append(slices.Clone(again.Notes), togetherNote)
		}
		if err != nil || !again.Verdict.Allowed {
			return again, err
		}
	}
	if !dryRun {
		h.recent.add(p.edit)
	}
	return record, nil
}
