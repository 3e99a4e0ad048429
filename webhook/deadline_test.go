package webhook

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name, timeout string
		want          time.Duration
	}{
		{"ours", "15s", 13500 * time.Millisecond},
		{"the longest there is", "30s", 28500 * time.Millisecond},
		{"longer than there is", "24h", 28500 * time.Millisecond},
		{"longer than a duration", "9999999999h", 8500 * time.Millisecond},
		{"missing: the default of the API", "", 8500 * time.Millisecond},
		{"garbage", "soon", 8500 * time.Millisecond},
		{"no unit", "15", 8500 * time.Millisecond},
		{"nothing", "0s", 8500 * time.Millisecond},
		{"negative", "-5s", 8500 * time.Millisecond},
		{"two seconds may be little more than one", "2s", 500 * time.Millisecond},
		{"one second may be next to nothing", "1s", 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := budget(tc.timeout); got != tc.want {
				t.Errorf("budget(%q) = %s, want %s", tc.timeout, got, tc.want)
			}
		})
	}
}

// The API server rounds up: what it announces as t may be all but a second less.
func TestBudgetKeepsMoreThanASecond(t *testing.T) {
	for s := 2; s <= 30; s++ {
		announced := time.Duration(s) * time.Second
		if left := announced - budget(announced.String()); left <= time.Second {
			t.Errorf("of %s announced, only %s are kept back", announced, left)
		}
	}
}

func TestWithDeadlineEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := withDeadline(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path+"?timeout=15s", nil))
		if took := time.Since(start); took != 13500*time.Millisecond {
			t.Errorf("the context ended after %s, want 13.5s", took)
		}
	})
}

// TestLateDecision: a decision that heeds no deadline is not waited for: there is an answer in time, and
// what is decided later admits nothing and is told to nobody. Its request counts until then.
func TestLateDecision(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		req      admissionv1.AdmissionRequest
		override bool
		late     time.Duration // after the end of the context
		inTime   bool
		// overtaken is set if another change is admitted while it is judged among others, so that it is judged again, and then is late.
		overtaken bool
	}{
		{"a moment late", creation(tagMirrorSet("apps", "quay.io")), false, grace - time.Millisecond, true, false},
		{"too late", creation(tagMirrorSet("apps", "quay.io")), false, 5 * time.Second, false, false},
		{"a deletion", deletion(tagMirrorSet("apps", "quay.io")), false, 5 * time.Second, false, false},
		{"overtaken", deletion(tagMirrorSet("apps", "quay.io")), false, 5 * time.Second, false, true},
		{"an override", creation(stored("quay.io", "u", 1)), true, 5 * time.Second, false, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget = 10 * time.Second
				req := onResource(tt.req)
				h := overriddenHandler(policy.Verdict{Allowed: true})
				if tt.override {
					h = overriddenHandler(refusedBy(policy.ImageMissing))
					req = annotated(t, req, codeIn(t, h.Handle(quiet(t), req).Result.Message)+": why")
				}
				reviewer, reviews := h.Reviewer, 0
				overtake := func(name string) {
					h.edits().AddUnconditionally(quiet(t), recent.Change{Edit: mirrors.Put(tagMirrorSet(name, "quay.io"))})
				}
				if tt.overtaken {
					overtake("before")
				}
				h.Reviewer = ReviewerFunc(func(ctx context.Context, edit mirrors.Edit) (review.Record, error) {
					switch reviews++; {
					case tt.overtaken && reviews == 2: // with the one before
						overtake("meanwhile")
					case !tt.overtaken || reviews == 3:
						time.Sleep(budget + tt.late)
					}
					record, err := reviewer.Review(ctx, edit, settings.Requester{})
					record.Read = time.Now()
					return record, err
				})
				var told atomic.Int32
				h.Overridden = func(Override) { told.Add(1) }
				ctx, cancel := context.WithTimeout(quiet(t), budget)
				defer cancel()
				start, over := time.Now(), atomic.Bool{}
				got := h.handle(ctx, req, func() { over.Store(true) })
				if took := time.Since(start); took > budget+grace {
					t.Errorf("answered after %s, want %s and a moment at most", took, budget)
				}
				if got.Allowed != tt.inTime || !tt.inTime && !strings.Contains(got.Result.Message, "there is no verdict") {
					t.Errorf("allowed %t: %v", got.Allowed, got.Result)
				}
				if !tt.inTime && over.Load() {
					t.Error("the request is not used any more, though it is decided on")
				}
				time.Sleep(2 * tt.late)
				if !over.Load() {
					t.Error("the request is used for ever")
				}
				if pending := len(othersOf(t, h, mirrors.Set{})); (pending == 1) != tt.inTime || told.Load() > 0 {
					t.Errorf("%d changes count as admitted, %d overrides were told", pending, told.Load())
				}
			})
		})
	}
}
