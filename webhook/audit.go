package webhook

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// An AuditLog keeps records of decisions. *auditlog.Log is one.
type AuditLog interface {
	// Detail says what is to be recorded. It must not block.
	Detail() audit.Detail
	// Record keeps the record of a decision. It must not block.
	Record(a auditv1alpha1.Decision)
	// Confirm keeps the record of what became of an override. It must not block.
	Confirm(c auditv1alpha1.Confirmation)
}

// The keys of the audit annotations that say which request a decision is about. Package input
// reads them back.
const (
	uidKey       = "uid"
	operationKey = "operation"
	dryRunKey    = "dryRun"
	oldHashKey   = "oldSpecHash"
	newHashKey   = "newSpecHash"
)

// specs are those before and after a change, as records have them; nil if there is none, or if it
// cannot be read.
type specs struct{ before, after *audit.Spec }

func (r *request) specs() (s specs) {
	if r.Operation != admissionv1.Create {
		s.before = r.specOf(r.old)
	}
	if !r.isRemoval() {
		s.after = r.specOf(r.put)
	}
	return s
}

func (r *request) specOf(m *manifest) *audit.Spec {
	obj, err := r.decode(m)
	if err != nil {
		return nil
	}
	spec, err := audit.SpecOf(obj, r.kind())
	if err != nil {
		return nil
	}
	return spec
}

// setRequest sets the request that a is about.
func (a *answer) setRequest(r *request) {
	a.uid, a.operation, a.dryRun = name(string(r.UID)), name(string(r.Operation)), r.isDryRun()
}

// annotate adds the request that a is about. The API server's log has its verb instead of the
// operation, and does not have the dry run of a deletion.
func (a answer) annotate(annotations map[string]string) {
	annotations[uidKey], annotations[operationKey] = a.uid, a.operation
	if a.dryRun {
		annotations[dryRunKey] = "true"
	}
	for key, spec := range map[string]*audit.Spec{oldHashKey: a.specs.before, newHashKey: a.specs.after} {
		if spec != nil {
			annotations[key] = spec.Hash
		}
	}
}

// record hands the record of a to the audit log. A failure of that is logged, and
// does not change the answer.
func (h *Handler) record(log logr.Logger, r *request, a answer, took time.Duration) {
	if h.Audit == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "Could not record decision", "uid", a.uid)
		}
	}()
	detail := h.Audit.Detail()
	if detail.Covers(string(a.verdict)) {
		h.Audit.Record(a.recorded(r, detail, time.Now().UTC(), took))
	}
}

// recorded returns the record of a.
func (a answer) recorded(r *request, detail audit.Detail, now time.Time, took time.Duration) auditv1alpha1.Decision {
	record := auditv1alpha1.Decision{
		Time:      now.Round(time.Microsecond),
		UID:       a.uid,
		Verdict:   string(a.verdict),
		Admitted:  a.admitted(),
		Mode:      a.mode.String(),
		Operation: a.operation,
		DryRun:    a.dryRun,
		User:      audit.UserOf(r.requester()),
		Object:    r.recorded(a.proposal.name),
		Seconds:   took.Round(time.Microsecond).Seconds(),
	}
	if a.message != "" {
		record.Reason = audit.Text(a.message)
	}
	if spec := a.specs.before; spec != nil {
		record.OldSpecHash = spec.Hash
	}
	if spec := a.specs.after; spec != nil {
		record.NewSpecHash = spec.Hash
	}
	if a.override != nil {
		record.Override = a.override.recorded()
	}
	if a.isReviewed() {
		audit.Rest(&record, a.record, detail.Facts)
	}
	if detail.Changes && a.verdict != skipped && a.verdict != malformed {
		record.Change = r.changeOf(a.specs)
	}
	return record
}

// recorded returns the object of r, of which there may be no other name than that of the request.
func (r *request) recorded(called string) auditv1alpha1.Object {
	return auditv1alpha1.Object{
		Group: name(r.Kind.Group), Version: name(r.Kind.Version), Kind: name(r.Kind.Kind),
		Namespace: name(r.Namespace), Name: name(called),
	}
}

// confirm hands the record of what became of an override of r to the audit log.
func (h *Handler) confirm(r *request, called string, confirmed bool) {
	if h.Audit != nil && h.Audit.Detail().Covers(string(overridden)) {
		h.Audit.Confirm(auditv1alpha1.Confirmation{
			Time: time.Now().UTC().Round(time.Microsecond), UID: name(string(r.UID)), Confirmed: confirmed,
			User: audit.UserOf(r.requester()), Object: r.recorded(called),
		})
	}
}

// changeOf returns the change for a record. An object that could not be read, which a deletion does
// not need, is marked as left out.
func (r *request) changeOf(s specs) *auditv1alpha1.Change {
	c := audit.ChangeOf(r.step, s.before, s.after)
	if s.before == nil && r.Operation != admissionv1.Create {
		c.Omit("the old object could not be read")
	}
	if s.after == nil && c.Step == auditv1alpha1.StepPut {
		c.Omit("the new object could not be read")
	}
	return c
}

func (o overrideAttempt) recorded() *auditv1alpha1.Override {
	return &auditv1alpha1.Override{Result: string(o.result), Of: string(o.refusal), Code: o.code, Reason: audit.Text(o.reason), Refused: audit.Text(o.objection)}
}

// isReviewed reports whether a rests on a review.
func (a answer) isReviewed() bool { return a.verdict != skipped && a.err == nil }
