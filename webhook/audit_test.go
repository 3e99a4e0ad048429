package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// recorder is an AuditLog that remembers.
type recorder struct {
	detail  audit.Detail
	records []auditv1alpha1.Decision
	panics  bool

	confirmations []auditv1alpha1.Confirmation
}

func (r *recorder) Detail() audit.Detail { return r.detail }

func (r *recorder) Confirm(c auditv1alpha1.Confirmation) {
	r.confirmations = append(r.confirmations, c)
}

func (r *recorder) Record(d auditv1alpha1.Decision) {
	if r.panics {
		panic("disk on fire")
	}
	r.records = append(r.records, d)
}

// TestDecisionsAreRecorded: who did what, what came of it, and what was to be changed.
func TestDecisionsAreRecorded(t *testing.T) {
	finalized := tagMirrorSet("apps", "quay.io/old")
	finalized.DeletionTimestamp, finalized.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/wait"}
	gone := finalized.DeepCopy()
	gone.Finalizers = nil
	broken := creation(tagMirrorSet("apps", "quay.io"))
	broken.Object.Raw = []byte(`{"spec":"x"}`)
	connection := requestTo(admissionv1.Connect, mirrors.TagMirrorSetGVK, "apps")
	denial := policy.Verdict{Findings: findings, Counts: policy.Counts{Rerouted: 5}}
	admitted := policy.Verdict{Allowed: true}
	for _, tt := range []struct {
		reason    string
		req       admission.Request
		verdict   policy.Verdict
		err       error
		unchanged bool
		want      *auditv1alpha1.Decision // nil: none
		hashes    [2]bool
		step      string
	}{
		{"a denial", creation(tagMirrorSet("apps", "quay.io")), denial, nil, false, &auditv1alpha1.Decision{Verdict: "denied", Operation: "CREATE", Rules: []auditv1alpha1.RuleCount{{Rule: "ImageMissing", Severity: "deny", Count: 2}, {Rule: "MirrorHidden", Severity: "warn", Count: 1}}}, [2]bool{false, true}, "put"},
		{"an admission", update(tagMirrorSet("apps", "quay.io/old"), tagMirrorSet("apps", "quay.io/new")), admitted, nil, false, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "UPDATE"}, [2]bool{true, true}, "put"},
		{"no verdict", creation(tagMirrorSet("apps", "quay.io")), denial, errors.New("no cluster"), false, &auditv1alpha1.Decision{Verdict: "none", Operation: "CREATE"}, [2]bool{false, true}, "put"},
		{"a deletion", deletion(tagMirrorSet("apps", "quay.io")), admitted, nil, false, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "DELETE"}, [2]bool{true, false}, "delete"},
		{"the last finalizer", update(finalized, gone), admitted, nil, false, &auditv1alpha1.Decision{Verdict: "allowed", Admitted: true, Operation: "UPDATE"}, [2]bool{true, false}, "removeFinally"},
		{"malformed", broken, admitted, nil, false, &auditv1alpha1.Decision{Verdict: "malformed", Operation: "CREATE"}, [2]bool{}, ""},
		{"nothing to review", connection, admitted, nil, false, nil, [2]bool{}, ""},
		{"nothing to review, asked for", connection, admitted, nil, true, &auditv1alpha1.Decision{Verdict: "skipped", Admitted: true, Operation: "CONNECT"}, [2]bool{}, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			log := &recorder{detail: audit.Detail{Unchanged: tt.unchanged, Changes: true, Facts: 10}}
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
			ignored := cmpopts.IgnoreFields(auditv1alpha1.Decision{}, "Time", "Seconds", "Findings", "Images", "Change", "OldSpecHash", "NewSpecHash", "Reason")
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
			if tt.step == "" {
				if got.Change != nil {
					t.Errorf("change %+v", got.Change)
				}
				return
			}
			step, err := audit.ReadChange(got.Change)
			if err != nil || got.Change.Step != tt.step || (step.Old != nil) != tt.hashes[0] || (step.New != nil) != tt.hashes[1] {
				t.Errorf("%v: change %+v", err, got.Change)
			}
		})
	}
}

// TestRecordOfWhatCannotBeRead: a deletion does without the old object, and the record says so.
func TestRecordOfWhatCannotBeRead(t *testing.T) {
	log := &recorder{detail: audit.Detail{Changes: true}}
	req := deletion(tagMirrorSet("apps", "quay.io"))
	req.OldObject.Raw = []byte(`{"metadata":{"name":"apps"},"spec":"x"}`)
	(&Handler{Options: Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}, Audit: log}}).Handle(quiet(t), req)
	if _, err := audit.ReadChange(log.records[0].Change); err == nil || !strings.Contains(err.Error(), "the old object could not be read") {
		t.Errorf("%v: %+v", err, log.records[0])
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
	h.Audit = &recorder{detail: audit.Detail{Off: true}, panics: true}
	h.Handle(quiet(t), creation(tagMirrorSet("apps", "quay.io")))
}

// TestPanicIsRecorded: as a refusal without a verdict, and the change is there to be replayed or
// said to be missing.
func TestPanicIsRecorded(t *testing.T) {
	log := &recorder{detail: audit.Detail{Changes: true}}
	h := &Handler{Options: Options{Audit: log, Reviewer: ReviewerFunc(func(context.Context, mirrors.Edit) (review.Record, error) { panic("oh no") })}}
	h.Handle(quiet(t), creation(tagMirrorSet("apps", "quay.io")))
	if d := log.records[0]; d.Verdict != "none" || d.Change == nil || d.Change.New == nil && d.Change.Omitted == "" {
		t.Errorf("%+v", d)
	}
}
