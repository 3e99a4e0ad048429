package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
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
	by     []fairshare.Claimant // of each look
}

func (c *cluster) Review(ctx context.Context, edit mirrors.Edit, _ settings.Requester) (review.Record, error) {
	c.mu.Lock()
	change, read := policy.Change{Before: c.stored, After: edit.Apply(c.stored)}, time.Now()
	c.looks++
	c.by = append(c.by, fairshare.ClaimantOf(ctx))
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
			verdict = policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{{
				Rule: "RejectedByMCO", Severity: policy.Deny, Reason: "two objects differ", Detail: []string{e.Source}, Remedy: []string{"correct it"},
			}}}}
		}
		sources[e.Source] = true
	}
	return review.Record{Subject: edit.Subject(), Verdict: verdict, Refusal: words.Refusal(verdict, edit.Subject()), Change: change, Read: read}, nil
}

func (c *cluster) Renew(ctx context.Context, edit mirrors.Edit, by settings.Requester, _ review.Record) (review.Record, error) {
	return c.Review(ctx, edit, by)
}

func (c *cluster) inForce() mirrors.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
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

func dryRun(req admissionv1.AdmissionRequest) admissionv1.AdmissionRequest {
	req.DryRun = new(true)
	return req
}

// Changes that are reviewed at the same time, or one before the other is stored, are
// judged together.
func TestTwoChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Options: Options{Reviewer: &cluster{think: time.Second}}}
		answers := make(chan admissionv1.AdmissionResponse, 2)
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
		req   admissionv1.AdmissionRequest
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
				h := &Handler{Options: Options{Reviewer: c}}
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
	create := func(name string) admissionv1.AdmissionRequest { return creation(tagMirrorSet(name, "quay.io")) }
	for _, tc := range []struct {
		name   string
		first  admissionv1.AdmissionRequest
		after  time.Duration
		then   admissionv1.AdmissionRequest
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
				h := &Handler{Options: Options{Reviewer: &cluster{}}}
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
	h := &Handler{Options: Options{Reviewer: c}}
	admit := func(req admissionv1.AdmissionRequest, want bool) {
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
		h := &Handler{Options: Options{Reviewer: &cluster{}}}
		turn, err := h.edits().Turn(t.Context(), mirrors.Edit{}, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(quiet(t), time.Second)
		defer cancel()
		answer := h.Handle(ctx, creation(tagMirrorSet("a", "quay.io")))
		if answer.Allowed || !strings.Contains(answer.Result.Message, "no verdict: waiting for another change to be decided") {
			t.Errorf("allowed %t: %v", answer.Allowed, answer.Result)
		}
		turn.End()
		if again := h.Handle(quiet(t), creation(tagMirrorSet("a", "quay.io"))); !again.Allowed {
			t.Errorf("refused afterwards: %v", again.Result)
		}
	})
}

// TestWhoDecidesIsFirst: a review for which a sender holds the right to decide waits for no other sender's, as they wait for the right.
func TestWhoDecidesIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		h := &Handler{Options: Options{Reviewer: c}}
		stranger := fairshare.Claimant{Name: "10.0.0.9", Rank: recent.RankKnown + 3}
		h.Handle(quiet(t), creation(tagMirrorSet("a", "quay.io")))
		h.Handle(fairshare.WithClaimant(quiet(t), stranger), creation(tagMirrorSet("b", "docker.io")))
		if n := len(c.by); n != 3 || c.by[1] != stranger || c.by[2].Name != stranger.Name || c.by[2].Rank >= recent.RankKnown {
			t.Errorf("got %v, want the stranger's change alone, and then before all others", c.by)
		}
	})
}

// TestProven: a sender is known once what it asks for is in force, if it knows the uid of the object, as API servers do.
func TestProven(t *testing.T) {
	for uid, want := range map[types.UID]bool{"u": true, "": false, "forged": false} {
		by, held := stored("quay.io", uid, 4), stored("quay.io/old", uid, 3)
		held.Finalizers = []string{"example.com/hold"}
		for name, req := range map[string]admissionv1.AdmissionRequest{
			"create": creation(by), "update": update(held, by), "delete": deletion(by), "last finalizer": update(leaving(held), leaving(by)),
		} {
			c := &cluster{}
			if name != "create" {
				c.store(stored("quay.io/old", "u", 3))
			}
			h := &Handler{Options: Options{Reviewer: c}}
			if got := h.Handle(fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: "10.0.0.9"}), req); !got.Allowed {
				t.Fatal(got.Result.Message)
			}
			if c.store(stored("quay.io", "u", 4)); readRequest(req).isRemoval() {
				c.remove(by)
			}
			h.edits().Observe(c.inForce(), time.Now().Add(time.Second))
			if got := h.edits().Knows("10.0.0.9"); got != want {
				t.Errorf("%s with uid %q: known %t", name, uid, got)
			}
		}
	}
}

// TestSlowedDown: a sender whose changes never come is slowed down, and keeps no others waiting
// meanwhile.
func TestSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		edits := recent.New(recent.Options{
			Stored:        func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return c.inForce(), nil },
			OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil },
		})
		go edits.Run(t.Context())
		synctest.Wait()
		h := &Handler{Options: Options{Reviewer: c, Recent: edits}}
		ask := func(sender, name string) (answer admissionv1.AdmissionResponse, took time.Duration) {
			ctx, cancel := context.WithTimeout(fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: sender, Rank: edits.Rank(sender)}), 10*time.Second)
			defer cancel()
			start := time.Now()
			answer = h.Handle(ctx, creation(tagMirrorSet(name, name+".example.com")))
			return answer, time.Since(start)
		}
		for i := range 6 {
			ask("10.0.0.1", fmt.Sprint("never-", i))
			time.Sleep(5 * time.Second)
		}
		ask("10.0.0.1", "never-6")
		go ask("10.0.0.1", "waits")
		synctest.Wait()
		if answer, took := ask("10.0.0.2", "good"); !answer.Allowed || took > time.Second {
			t.Errorf("another waits for %s: %v", took, answer.Result)
		}
		if answer, took := ask("10.0.0.1", "too-many"); answer.Allowed || took < 9*time.Second {
			t.Errorf("it is not slowed down: allowed %t after %s", answer.Allowed, took)
		}
	})
}

// TestWaits: a change that only what may never come is in the way of waits for that. It is judged
// with what comes of it, and what is asked for later does not get in its way.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		reason string
		stored time.Duration // when the first change is; 0 for never
		sender string
		want   bool
		says   string
		within time.Duration
	}{
		{"the first never comes", 0, "", true, "", 5 * time.Second},
		{"the first is stored", 500 * time.Millisecond, "", false, "ImageTagMirrorSet b is refused: two objects differ.", 2 * time.Second},
		{"a suspect", 0, "10.0.0.1", false, "ImageTagMirrorSet b together with ImageTagMirrorSet a, admitted a moment ago, is refused: two objects differ.", time.Millisecond},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{}
				edits := recent.New(recent.Options{
					Stored:        func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return c.inForce(), nil },
					OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil },
				})
				go edits.Run(t.Context())
				synctest.Wait()
				h := &Handler{Options: Options{Reviewer: c, Recent: edits}}
				for i := 0; tt.sender != "" && i < 3; i++ {
					ctx := fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: tt.sender})
					h.Handle(ctx, creation(tagMirrorSet("never", fmt.Sprintf("never%d.io", i))))
					time.Sleep(10 * time.Second)
				}
				if first := h.Handle(quiet(t), creation(tagMirrorSet("a", "quay.io"))); !first.Allowed {
					t.Fatal(first.Result.Message)
				}
				start := time.Now()
				second, third := make(chan admissionv1.AdmissionResponse, 1), make(chan admissionv1.AdmissionResponse, 1)
				go func() {
					ctx, cancel := context.WithTimeout(fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: tt.sender}), 10*time.Second)
					defer cancel()
					second <- h.Handle(ctx, creation(tagMirrorSet("b", "quay.io")))
				}()
				synctest.Wait()
				go func() {
					ctx, cancel := context.WithTimeout(fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: "10.0.0.2"}), 30*time.Second)
					defer cancel()
					third <- h.Handle(ctx, creation(tagMirrorSet("c", "quay.io")))
				}()
				if tt.stored > 0 {
					time.Sleep(tt.stored)
					c.store(tagMirrorSet("a", "quay.io"))
				}
				got := <-second
				if took := time.Since(start); got.Allowed != tt.want || took > tt.within || got.Result != nil && !strings.HasPrefix(got.Result.Message, tt.says) {
					t.Errorf("after %s: allowed %t, %v", took, got.Allowed, got.Result)
				}
				if got.Allowed {
					c.store(tagMirrorSet("b", "quay.io"))
				}
				if last := <-third; last.Allowed != (tt.sender != "") {
					t.Errorf("what a stranger asked for later: allowed %t", last.Allowed)
				}
			})
		})
	}
}

// TestNoWayAroundTheLease: what other replicas cannot be told of is not admitted, be it that an object is
// taken away: another may need what it has.
func TestNoWayAroundTheLease(t *testing.T) {
	for reason, leases := range map[string]clientcoordinationv1.LeasesGetter{
		"out of reach": noLeases{}, "another whenever something is added": busyLeases{},
	} {
		for _, req := range []admissionv1.AdmissionRequest{creation(tagMirrorSet("b", "other.io")), deletion(tagMirrorSet("a", "quay.io"))} {
			t.Run(reason+"/"+string(req.Operation), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					edits := recent.New(recent.Options{Lease: recent.NewLease(leases, leases, "n", "a", nil)})
					h := &Handler{Options: Options{Reviewer: &cluster{stored: mirrors.Set{Objects: []mirrors.Object{tagMirrorSet("a", "quay.io")}}}, Recent: edits, Authorizer: permits("kube:admin")}}
					go edits.Run(t.Context())
					time.Sleep(10 * time.Second) // until the list is relied on
					for _, overrides := range []bool{false, true} {
						ctx, cancel := context.WithTimeout(quiet(t), 10*time.Second)
						got := h.Handle(ctx, onResource(req))
						cancel()
						if got.Allowed != overrides || !overrides && !strings.Contains(got.Result.Message, "no verdict: ") {
							t.Fatalf("allowed %t: %v", got.Allowed, got.Result)
						}
						if !overrides {
							req = annotated(t, onResource(req), codeIn(t, got.Result.Message)+": why")
						}
					}
				})
			})
		}
	}
}

// busyLeases have one that is always written by somebody else a moment before.
type busyLeases struct{ noLeases }

func (b busyLeases) Leases(string) clientcoordinationv1.LeaseInterface { return b }

func busyLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: recent.LeaseName, UID: "u", ResourceVersion: "1"}}
}

func (busyLeases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return busyLease(), nil
}

func (busyLeases) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []coordinationv1.Lease{*busyLease()}}, nil
}

func (busyLeases) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (busyLeases) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	time.Sleep(10 * time.Millisecond) // which a request takes
	return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), recent.LeaseName, errors.New("it has been modified"))
}

// noLeases are those of an API server that is out of reach.
type noLeases struct {
	clientcoordinationv1.LeasesGetter
	clientcoordinationv1.LeaseInterface
}

func (n noLeases) Leases(string) clientcoordinationv1.LeaseInterface { return n }

func (noLeases) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return nil, errors.New("no route to host")
}

func (noLeases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, errors.New("no route to host")
}

// TestPanicWhileDeciding: it costs nobody else the right to decide.
func TestPanicWhileDeciding(t *testing.T) {
	reviews := 0
	h := &Handler{Options: Options{Reviewer: ReviewerFunc(func(_ context.Context, edit mirrors.Edit) (review.Record, error) {
		if reviews++; reviews == 2 {
			panic("the second time")
		}
		return review.Record{Subject: edit.Subject(), Verdict: policy.Verdict{Allowed: true}}, nil
	})}}
	if got := h.Handle(quiet(t), creation(tagMirrorSet("a", "quay.io"))); got.Allowed {
		t.Error("admitted in spite of a panic")
	}
	ctx, cancel := context.WithTimeout(quiet(t), 10*time.Second)
	defer cancel()
	if got := h.Handle(ctx, creation(tagMirrorSet("a", "quay.io"))); !got.Allowed {
		t.Error(got.Result.Message)
	}
}

// othersOf returns the edits that h still counts, if inForce is in force.
func othersOf(t *testing.T, h *Handler, inForce mirrors.Set) []mirrors.Edit {
	t.Helper()
	view, err := h.edits().View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return view.Others(mirrors.Put(tagMirrorSet("none", "")), inForce, time.Now())
}
