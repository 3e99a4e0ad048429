package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// recent are the changes that were admitted and are not stored yet, as far as is known.
// The API server stores a change after it was admitted, so that one which is reviewed
// meanwhile does not find it among the objects in force: each may be safe, and both
// together not. The zero value is empty and ready.
//
// It knows the changes that this process admitted, not those of another replica: see
// lookAgain.
type recent struct {
	once sync.Once
	turn chan struct{} // who holds it decides

	mu   sync.Mutex
	list []admittedChange
}

type admittedChange struct {
	question
	at time.Time
}

const (
	// settles is how long after its admission a change may not be stored yet. It never
	// will be if another webhook refuses it.
	settles = 10 * time.Second
	// lookAgain is the age of what was read of the cluster beyond which a change is not
	// admitted by it. To ask registries takes seconds, in which another replica may have
	// admitted something; to review once more what is known by then, a moment.
	lookAgain = 250 * time.Millisecond
	// maxRecent bounds what is kept; a change of mirrors is a rare event.
	maxRecent = 64
)

// take waits for the turn to decide, until ctx ends.
func (r *recent) take(ctx context.Context) error {
	r.once.Do(func() {
		r.turn = make(chan struct{}, 1)
		r.turn <- struct{}{}
	})
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change to be decided: %w", ctx.Err())
	}
}

func (r *recent) give() { r.turn <- struct{}{} }

// add enters q, in the place of what was known of its object.
func (r *recent) add(q question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(c admittedChange) bool { return sameObject(c.question, q) })
	r.list = append(r.list, admittedChange{q, time.Now()})
	r.list = slices.Delete(r.list, 0, max(0, len(r.list)-maxRecent))
}

// observe forgets the changes that are among the objects in force.
func (r *recent) observe(inForce mirrors.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(c admittedChange) bool { return c.isIn(inForce) })
}

// others returns the changes to other objects than that of q.
func (r *recent) others(q question) []admittedChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(c admittedChange) bool { return time.Since(c.at) >= settles })
	return slices.DeleteFunc(slices.Clone(r.list), func(c admittedChange) bool { return sameObject(c.question, q) })
}

func sameObject(a, b question) bool { return mirrors.NameOf(a.object) == mirrors.NameOf(b.object) }

// isIn reports whether the change has been made in s.
func (q question) isIn(s mirrors.Set) bool {
	if _, ok := q.object.(*configv1.Image); ok {
		after := q.edit(s)
		return equality.Semantic.DeepEqual(s.Registries, after.Registries) && s.TrustedCA == after.TrustedCA
	}
	objects := slices.Concat(s.Objects, s.Policies)
	i := slices.IndexFunc(objects, func(o mirrors.Object) bool { return mirrors.NameOf(o) == mirrors.NameOf(q.object) })
	if q.deleted {
		// What has finalizers is marked, and in force until the last of them is removed,
		// which is a change of its own.
		return i < 0 || !q.finalized && objects[i].GetDeletionTimestamp() != nil
	}
	if i < 0 {
		return false
	}
	return equality.Semantic.DeepEqual(specOf(objects[i]), specOf(q.object))
}

// together is the edit of q and the others, as one change, and what messages call it.
func together(q question, others []admittedChange) (subject string, edit mirrors.Edit) {
	if len(others) == 0 {
		return q.subject, q.edit
	}
	edits, names := make([]mirrors.Edit, 0, len(others)+1), make([]string, len(others))
	for i, c := range others {
		edits, names[i] = append(edits, c.edit), c.subject
	}
	subject = fmt.Sprintf("%s together with %s, admitted a moment ago,", q.subject, text.Cut(strings.Join(names, ", "), maxNameRunes))
	return subject, mirrors.All(append(edits, q.edit)...)
}

// togetherNote goes with a refusal for the sake of changes that are not in force: there
// is no telling whether they ever will be.
const togetherNote = "a change admitted a moment ago is not in force yet; if another webhook refused it, apply again in 10 s"

// judge reviews q alone and, if it would be admitted, with what came meanwhile. Those
// that would be admitted are decided one after the other: what is to be known of
// registries is known by then.
func (h *Handler) judge(ctx context.Context, q question, dryRun bool) (review.Record, error) {
	var read time.Time
	alone := func(inForce mirrors.Set) mirrors.Set {
		read = time.Now()
		h.recent.observe(inForce)
		return q.edit(inForce)
	}
	record, err := h.Reviewer.Review(ctx, q.subject, alone)
	if err != nil || !record.Verdict.Allowed {
		return record, err
	}
	if err := h.recent.take(ctx); err != nil {
		return review.Record{}, err
	}
	defer h.recent.give()
	others := h.recent.others(q)
	if len(others) > 0 || !dryRun && time.Since(read) > lookAgain {
		subject, all := together(q, others)
		again, err := h.Reviewer.Review(ctx, subject, all)
		if err == nil && !again.Verdict.Allowed && len(others) > 0 {
			again.Notes = append(slices.Clone(again.Notes), togetherNote)
		}
		if err != nil || !again.Verdict.Allowed {
			return again, err
		}
	}
	if !dryRun {
		h.recent.add(q)
	}
	return record, nil
}
