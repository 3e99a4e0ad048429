package webhook

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// A cluster is one whose objects in force are what has been stored, and in which any two
// objects of one source break each other, as two with different policies do.
type cluster struct {
	mu     sync.Mutex
	stored mirrors.Set
	think  time.Duration // what a review takes
	looks  int
}

func (c *cluster) Review(ctx context.Context, edit mirrors.Edit) (review.Record, error) {
	c.mu.Lock()
	change, read := policy.Change{Before: c.stored, After: edit.Apply(c.stored)}, time.Now()
	c.looks++
	c.mu.Unlock()
	select {
	case <-time.After(c.think):
	case <-ctx.Done():
		return review.Record{}, ctx.Err()
	}
	sources := map[string]bool{}
	verdict := policy.Verdict{Allowed: true}
	for _, e := range change.After.Entries() {
		if sources[e.Source] {
			verdict = policy.Verdict{Findings: []policy.Finding{{
				Rule: "RejectedByMCO", Severity: policy.Deny, Reason: "two objects differ", Detail: []string{e.Source}, Remedy: []string{"correct it"},
			}}}
		}
		sources[e.Source] = true
	}
	return review.Record{Subject: edit.Subject(), Verdict: verdict, Change: change, Read: read}, nil
}

func (c *cluster) store(o mirrors.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = mirrors.Put(o).Apply(c.stored)
}

func (c *cluster) remove(o mirrors.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = mirrors.Delete(o).Apply(c.stored)
}

func dryRun(req admission.Request) admission.Request {
	req.DryRun = new(true)
	return req
}

// Changes that are reviewed at the same time, or one before the other is stored, are
// judged together.
func TestTwoChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Reviewer: &cluster{think: time.Second}}
		answers := make(chan admission.Response, 2)
		for _, name := range []string{"a", "b"} {
			go func() { answers <- h.Handle(quiet(t), creation(tagMirrorSet(name, "quay.io"))) }()
		}
		first, second := <-answers, <-answers
		if !first.Allowed || second.Allowed {
			t.Fatalf("admitted: %t, then %t; want the one that is decided first", first.Allowed, second.Allowed)
		}
		if !slices.Contains(second.Warnings, togetherNote) {
			t.Errorf("warnings %q do not say what to do", second.Warnings)
		}
		message := second.Result.Message
		if !strings.Contains(message, " together with ImageTagMirrorSet ") || !strings.Contains(message, ", admitted a moment ago, is refused: two objects differ.") {
			t.Errorf("got %q", message)
		}
	})
}

// What another replica admitted while registries were asked is found by a second look.
func TestSecondLook(t *testing.T) {
	for _, tc := range []struct {
		name  string
		think time.Duration
		req   admission.Request
		want  bool
		looks int
	}{
		{"long", time.Second, creation(tagMirrorSet("b", "quay.io")), false, 2},
		{"short", recent.MaxReadAge, creation(tagMirrorSet("b", "quay.io")), true, 1},
		{"a dry run", time.Second, dryRun(creation(tagMirrorSet("b", "quay.io"))), true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{think: tc.think}
				h := &Handler{Reviewer: c}
				go func() {
					time.Sleep(tc.think / 2)
					c.store(tagMirrorSet("a", "quay.io"))
				}()
				got := h.Handle(quiet(t), tc.req)
				if got.Allowed != tc.want || c.looks != tc.looks {
					t.Errorf("allowed %t after %d looks, want %t after %d: %v", got.Allowed, c.looks, tc.want, tc.looks, got.Result)
				}
				if !got.Allowed && !strings.HasPrefix(got.Result.Message, "ImageTagMirrorSet b is refused: two objects differ.") {
					t.Errorf("got %q", got.Result.Message)
				}
			})
		})
	}
}

func TestChangesOfLate(t *testing.T) {
	create := func(name string) admission.Request { return creation(tagMirrorSet(name, "quay.io")) }
	for _, tc := range []struct {
		name   string
		first  admission.Request
		after  time.Duration
		then   admission.Request
		denied bool
	}{
		{"another object", create("a"), 0, create("b"), true},
		{"after a while", create("a"), recent.MaxStoringTime, create("b"), false},
		{"the same object", create("a"), 0, create("a"), false},
		{"a dry run is not kept", dryRun(create("a")), 0, create("b"), false},
		{"a dry run is judged", create("a"), 0, dryRun(create("b")), true},
		{"another source", create("a"), 0, creation(tagMirrorSet("b", "other.io")), false},
		{"a deletion", create("a"), 0, deletion(tagMirrorSet("b", "quay.io")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &Handler{Reviewer: &cluster{}}
				if first := h.Handle(quiet(t), tc.first); !first.Allowed {
					t.Fatal(first.Result.Message)
				}
				time.Sleep(tc.after)
				if then := h.Handle(quiet(t), tc.then); then.Allowed == tc.denied {
					t.Errorf("allowed %t, want %t: %v", then.Allowed, !tc.denied, then.Result)
				}
			})
		})
	}
}

// What is stored has its effect by being in force, and none when it is gone again by a
// way that the guard does not see.
func TestStoredOfLate(t *testing.T) {
	c := &cluster{}
	h := &Handler{Reviewer: c}
	admit := func(req admission.Request, want bool) {
		t.Helper()
		if got := h.Handle(quiet(t), req); got.Allowed != want {
			t.Fatalf("allowed %t, want %t: %v", got.Allowed, want, got.Result)
		}
	}
	admit(creation(tagMirrorSet("a", "quay.io")), true)
	c.store(tagMirrorSet("a", "quay.io"))
	admit(creation(tagMirrorSet("b", "quay.io")), false)
	if others := othersOf(t, h, c.stored); len(others) != 0 {
		t.Errorf("%v, though it is stored", others)
	}
	c.remove(tagMirrorSet("a", ""))
	admit(creation(tagMirrorSet("b", "quay.io")), true)

	// An object that is going is in force as long as it is stored.
	c.store(tagMirrorSet("b", "quay.io"))
	admit(deletion(tagMirrorSet("b", "quay.io")), true)
	admit(creation(tagMirrorSet("a", "quay.io")), false)
	c.remove(tagMirrorSet("b", ""))
	admit(creation(tagMirrorSet("a", "quay.io")), true)
}

// A change that has to wait for the decision on another until time is up has no verdict.
func TestNoSlotToDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Reviewer: &cluster{}}
		if err := h.edits().Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(quiet(t), time.Second)
		defer cancel()
		answer := h.Handle(ctx, creation(tagMirrorSet("a", "quay.io")))
		if answer.Allowed || !strings.Contains(answer.Result.Message, "no verdict: waiting for another change to be decided") {
			t.Errorf("allowed %t: %v", answer.Allowed, answer.Result)
		}
		h.edits().Release()
		if again := h.Handle(quiet(t), creation(tagMirrorSet("a", "quay.io"))); !again.Allowed {
			t.Errorf("refused afterwards: %v", again.Result)
		}
	})
}

// othersOf returns the edits that h still counts, if inForce is in force.
func othersOf(t *testing.T, h *Handler, inForce mirrors.Set) []mirrors.Edit {
	t.Helper()
	look, err := h.edits().Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return look.Others(mirrors.Put(tagMirrorSet("none", "")), inForce, time.Now())
}
