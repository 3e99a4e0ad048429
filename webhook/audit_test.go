package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// recorder is an AuditLog that remembers.
type recorder struct {
	records []auditv1alpha1.Decision
	panics  bool

	confirmations []auditv1alpha1.Confirmation
	omitted       atomic.Int64
}

func (r *recorder) Omit(n int, _ time.Time) { r.omitted.Add(int64(n)) }

func (r *recorder) Confirm(c auditv1alpha1.Confirmation) {
	r.confirmations = append(r.confirmations, c)
}

func (r *recorder) Record(d auditv1alpha1.Decision) {
	if r.panics {
		panic("disk on fire")
	}
	r.records = append(r.records, d)
}

// TestDecisionsAreRecorded: who did what, and what came of it.
func TestDecisionsAreRecorded(t *testing.T) {
	finalized := tagMirrorSet("apps", "quay.io/old")
	finalized.DeletionTimestamp, finalized.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/wait"}
	gone := finalized.DeepCopy()
	gone.Finalizers = nil
	broken := creation(tagMirrorSet("apps", "quay.io"))
	broken.Object.Raw = []byte(`{"spec":"x"}`)
	connection := requestTo(admissionv1.Connect, mirrors.TagMirrorSetGVK, "apps")
	denial := policy.Verdict{Judgement: policy.Judgement{Findings: findings, Counts: policy.Counts{Rerouted: 5}}}
	admitted := policy.Verdict{Allowed: true}
	for _, tt := range []struct {
		reason  string
		req     admissionv1.AdmissionRequest
		verdict policy.Verdict
		err     error
		want    *auditv1alpha1.Decision // nil: none
		hashes  [2]bool
	}{
		{"a denial", creation(tagMirrorSet("apps", "quay.io")), denial, nil, &auditv1alpha1.Decision{Verdict: "denied", Operation: "CREATE", Rules: []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 2}, {Rule: "MirrorHidden", Severity: "warn", Count: 1}}}, [2]bool{false, true}},
		{"an admission", update(tagMirrorSet("apps", "quay.io/old"), tagMirrorSet("apps", "quay.io/new")), admitted, nil, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "UPDATE"}, [2]bool{true, true}},
		{"no verdict", creation(tagMirrorSet("apps", "quay.io")), denial, errors.New("no cluster"), &auditv1alpha1.Decision{Verdict: "none", Operation: "CREATE"}, [2]bool{false, true}},
		{"a deletion", deletion(tagMirrorSet("apps", "quay.io")), admitted, nil, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "DELETE"}, [2]bool{true, false}},
		{"the last finalizer", update(finalized, gone), admitted, nil, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "UPDATE"}, [2]bool{true, false}},
		{"malformed", broken, admitted, nil, &auditv1alpha1.Decision{Verdict: "malformed", Operation: "CREATE"}, [2]bool{}},
		{"nothing to review", connection, admitted, nil, nil, [2]bool{}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			log := &recorder{}
			h := &Handler{Options: Options{Reviewer: &records{verdict: tt.verdict, err: tt.err}, Audit: log}}
			resp := h.Handle(quiet(t), tt.req)
			if tt.want == nil {
				if len(log.records) > 0 {
					t.Errorf("recorded %+v", log.records)
				}
				return
			}
			got := log.records[0]
			want := *tt.want
			want.UID, want.Mode, want.User = "b7f3a1c2", "enforce", auditv1alpha1.User{Name: "kube:admin", Groups: []string{"system:masters"}}
			want.Object = auditv1alpha1.Object{Group: "config.openshift.io", Version: "v1", Kind: "ImageTagMirrorSet", Name: "apps"}
			ignored := cmpopts.IgnoreFields(auditv1alpha1.Decision{}, "Time", "Seconds", "Findings", "Images", "OldSpecHash", "NewSpecHash", "Reason")
			if diff := cmp.Diff(want, got, ignored); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if hashes := [2]bool{got.OldSpecHash != "", got.NewSpecHash != ""}; hashes != tt.hashes {
				t.Errorf("hashes %q and %q", got.OldSpecHash, got.NewSpecHash)
			}
			if resp.AuditAnnotations != nil && (resp.AuditAnnotations["oldSpecHash"] != got.OldSpecHash || resp.AuditAnnotations["newSpecHash"] != got.NewSpecHash || resp.AuditAnnotations["uid"] != got.UID) {
				t.Errorf("annotations %v", resp.AuditAnnotations)
			}
			if (got.Reason != "") == resp.Allowed {
				t.Errorf("reason %q, allowed %t", got.Reason, resp.Allowed)
			}
		})
	}
}

// TestRecordingChangesNoAnswer: whatever goes wrong with it.
func TestRecordingChangesNoAnswer(t *testing.T) {
	logged, ctx := logs(t)
	h := &Handler{Options: Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}, Audit: &recorder{panics: true}}}
	if resp := h.Handle(ctx, creation(tagMirrorSet("apps", "quay.io"))); !resp.Allowed {
		t.Errorf("refused: %v", resp.Result)
	}
	if len(*logged) != 2 || !strings.Contains((*logged)[1], "Could not record decision") {
		t.Errorf("log %q", *logged)
	}
}

// TestPanicIsRecorded: as a refusal without a verdict.
func TestPanicIsRecorded(t *testing.T) {
	log := &recorder{}
	h := &Handler{Options: Options{Audit: log, Reviewer: ReviewerFunc(func(context.Context, mirrors.Edit) (review.Record, error) { panic("oh no") })}}
	h.Handle(quiet(t), creation(tagMirrorSet("apps", "quay.io")))
	if d := log.records[0]; d.Verdict != "none" {
		t.Errorf("%+v", d)
	}
}

// TestStrangersFillNoLog: what is written for senders that are not known is bounded, marked, and told of when it
// is left out; what is written for others is not bounded by it.
func TestStrangersFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log recorder
		var lines atomic.Int64
		mux := muxFor(t, Options{
			Reviewer: &records{verdict: policy.Verdict{}}, Audit: &log, Recent: knowing("10.0.0.1"),
			Log: funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{}),
		})
		const n = 2000
		for i := range n {
			text := reviewOf(creation(tagMirrorSet("apps", "quay.io")))
			if i%2 == 0 {
				text = []byte("junk") // it is refused
			}
			send(mux, fmt.Sprint("10.0.0.", 2+i%40), time.Second, text)
		}
		if bytes := max(len(log.records), int(lines.Load())) * leastLine; bytes == 0 || bytes > strangersBytes || log.omitted.Load() > 0 {
			t.Errorf("%d records and %d lines of %d requests, %d left out", len(log.records), lines.Load(), n, log.omitted.Load())
		}
		before := len(log.records)
		send(mux, "10.0.0.1", time.Second, reviewOf(creation(tagMirrorSet("apps", "quay.io"))))
		if len(log.records) != before+1 || log.records[before].SenderNotKnown || !log.records[0].SenderNotKnown {
			t.Error("the record of an API server is lost, or marked, or that of a stranger is not")
		}
		written := lines.Load() - 1
		time.Sleep(strangersPeriod)
		synctest.Wait()
		if log.omitted.Load() != n-written {
			t.Errorf("%d were left out, %d told", n-written, log.omitted.Load())
		}
		send(mux, "10.0.0.2", time.Second, reviewOf(creation(tagMirrorSet("apps", "quay.io"))))
		if len(log.records) != before+2 {
			t.Error("there is no record any more")
		}
	})
}
