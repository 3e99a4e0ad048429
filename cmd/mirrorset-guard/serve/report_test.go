package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

func newTestReporter(look func(context.Context) (review.Standing, error)) *reporter {
	r := &reporter{
		look: look,
		progress: func(context.Context, time.Time) (status.Input, error) {
			return status.Input{}, errors.New("no pools here")
		},
		release:   func() []answer.Block { return nil },
		decisions: &decisions{}, log: logr.Discard(), turn: make(chan struct{}, 1),
	}
	r.turn <- struct{}{}
	return r
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestReportAtOnce: the page that 50 ask for at once is made once, and more readers than may wait are
// told so.
func TestReportAtOnce(t *testing.T) {
	var looks atomic.Int32
	gate := make(chan struct{})
	r := newTestReporter(func(context.Context) (review.Standing, error) {
		looks.Add(1)
		<-gate
		return review.Standing{}, nil
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			w := get(r, "/report")
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Nothing to verify") || !strings.Contains(w.Body.String(), "the rollouts are not known: no pools here") {
				t.Errorf("%d\n%s", w.Code, w.Body)
			}
			for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"} {
				if w.Header().Get(h) == "" {
					t.Errorf("no header %s", h)
				}
			}
		})
	}
	for r.readers.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	r.readers.Add(maxReaders)
	if w := get(r, "/report"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one reader too many: %d", w.Code)
	}
	r.readers.Add(-maxReaders)
	close(gate)
	all.Wait()
	if n := looks.Load(); n != 1 {
		t.Errorf("the page was made %d times", n)
	}
}

// TestReportCostsNoReview: while a page is made, and fifty wait for it, reviews are answered as ever, and
// page and reviews together ask registries for nothing that is known.
func TestReportCostsNoReview(t *testing.T) {
	var asked atomic.Int32
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		holdsAll(w, r)
	})
	g := guardOf(t, clitest.ShopMirror+","+deployments(100), io.Discard, flags...)
	change := strings.Replace(clitest.ShopMirror, `"example.com/shop"`, `"example.com/shop","other.example.com/shop"`, 1)
	if first := askGuard(t, g, change, 30*time.Second, dryRun); !first.Allowed {
		t.Fatal(first.Result.Message)
	}
	verifier, err := standing.New(standing.Options{Reviewer: g.world.Reviewer(), Store: g.registries, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	looking, looks, gate := make(chan struct{}), atomic.Int32{}, make(chan struct{})
	r := newTestReporter(func(ctx context.Context) (review.Standing, error) {
		looks.Add(1)
		close(looking)
		<-gate
		return verifier.Look(ctx)
	})
	cold := asked.Load()
	var readers, reviews sync.WaitGroup
	for range 50 {
		readers.Go(func() {
			if w := get(r, "/report"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "100 images that mirror objects cover") {
				t.Errorf("%d\n%s", w.Code, w.Body)
			}
		})
	}
	<-looking
	for range 50 { // none of which would end if it waited for the page
		reviews.Go(func() {
			if answer := askGuard(t, g, change, 30*time.Second, dryRun); !answer.Allowed {
				t.Errorf("%v %q", answer.Result, answer.Warnings)
			}
		})
	}
	reviews.Wait()
	close(gate)
	readers.Wait()
	if n := asked.Load() - cold; n > 0 {
		t.Errorf("%d requests for what is known", n)
	}
	if n := looks.Load(); n != 1 {
		t.Errorf("the page was made %d times", n)
	}
}

// TestReportFails: what cannot be read is said, and tried again with the next request.
func TestReportFails(t *testing.T) {
	err := errors.New("no answer")
	r := newTestReporter(func(context.Context) (review.Standing, error) { return review.Standing{}, err })
	if w := get(r, "/report"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	err = nil
	if w := get(r, "/report"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestReportRollouts: how far rollouts are is said in a sentence, and what could not be read of them is no part of what the answer rests on.
func TestReportRollouts(t *testing.T) {
	r := newTestReporter(func(context.Context) (review.Standing, error) { return review.Standing{}, nil })
	r.progress = func(context.Context, time.Time) (status.Input, error) {
		return status.Input{Cluster: rollout.Cluster{Unknown: []string{"machineconfignodes"}}}, nil
	}
	page := get(r, "/report").Body.String()
	_, unknown, _ := strings.Cut(page, `<h2 id="unknown-title">`)
	unknown, _, _ = strings.Cut(unknown, "</section>")
	if !strings.Contains(page, "Not known:</span> No pool could be read.") || !strings.Contains(unknown, "machineconfignodes could not be read") {
		t.Error(page)
	}
}

// TestReportDecisions: the last decisions are there, and each has its page.
func TestReportDecisions(t *testing.T) {
	r := newTestReporter(func(context.Context) (review.Standing, error) { return review.Standing{}, nil })
	for i := range maxDecisions + 10 {
		r.decisions.add(auditv1alpha1.Decision{UID: fmt.Sprint("uid-", i), Verdict: "denied", Reason: "<b>refused</b>"})
	}
	for i := range 2 * maxStrangers { // they push out their own
		r.decisions.add(auditv1alpha1.Decision{UID: fmt.Sprint("stranger-", i), SenderNotKnown: true})
	}
	if n := len(r.decisions.latest()); n != maxDecisions+maxStrangers {
		t.Errorf("%d are kept", n)
	}
	kept := r.decisions.latest()[maxStrangers:]
	if len(kept) != maxDecisions || kept[0].UID != fmt.Sprint("uid-", maxDecisions+9) {
		t.Errorf("%d, %+v", len(kept), kept[0])
	}
	if w := get(r, "/report"); !strings.Contains(w.Body.String(), `href="?change=uid-59"`) {
		t.Errorf("no link to a decision\n%s", w.Body)
	}
	if w := get(r, "/report?change=uid-59"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "&lt;b&gt;refused") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if w := get(r, "/report?change=uid-1"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "uid-1") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

// TestReporterBeforeItsParts: the port is served before the guard is put together.
func TestReporterBeforeItsParts(t *testing.T) {
	g := &guard{}
	r := g.newReporter("here")
	var err error
	if g.updates, err = nextrelease.New(nextrelease.Options{}); err != nil {
		t.Fatal(err)
	}
	r.release()
}
