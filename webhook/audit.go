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
	Record(d auditv1alpha1.Decision)
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

// specs are those before and after a change, as records have them; nil where there is none, or
// where it cannot be read.
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

// of sets which request d is about.
func (d *decision) of(r *request) {
	d.uid, d.operation, d.dryRun = name(string(r.UID)), name(string(r.Operation)), r.isDryRun()
}

// annotate adds which request d is about. The API server's log has its verb instead of the
// operation, and does not have the dry run of a deletion.
func (d decision) annotate(a map[string]string) {
	a[uidKey], a[operationKey] = d.uid, d.operation
	if d.dryRun {
		a[dryRunKey] = "true"
	}
	for key, spec := range map[string]*audit.Spec{oldHashKey: d.specs.before, newHashKey: d.specs.after} {
		if spec != nil {
			a[key] = spec.Hash
		}
	}
}

// record hands the record of d to the audit log. Whatever goes wrong with that is logged, and
// does not change the answer.
func (h *Handler) record(log logr.Logger, r *request, d decision, took time.Duration) {
	if h.Audit == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "Could not record decision", "uid", d.uid)
		}
	}()
	detail := h.Audit.Detail()
	if detail.Covers(string(d.verdict)) {
		h.Audit.Record(d.recorded(r, detail, time.Now().UTC(), took))
	}
}

// recorded returns the record of d.
func (d decision) recorded(r *request, detail audit.Detail, now time.Time, took time.Duration) auditv1alpha1.Decision {
	record := auditv1alpha1.Decision{
		Time:      now.Round(time.Microsecond),
		UID:       d.uid,
		Verdict:   string(d.verdict),
		Admitted:  d.admitted(),
		Mode:      d.mode.String(),
		Operation: d.operation,
		DryRun:    d.dryRun,
		User:      audit.UserOf(r.requester()),
		Object:    r.recorded(d.proposal.name),
		Seconds:   took.Round(time.Microsecond).Seconds(),
	}
	if d.message != "" {
		record.Reason = audit.Text(d.message)
	}
	if spec := d.specs.before; spec != nil {
		record.OldSpecHash = spec.Hash
	}
	if spec := d.specs.after; spec != nil {
		record.NewSpecHash = spec.Hash
	}
	if d.override != nil {
		record.Override = d.override.recorded()
	}
	if d.isReviewed() {
		audit.Rest(&record, d.record, detail.Facts)
	}
	if detail.Changes && d.verdict != skipped && d.verdict != malformed {
		record.Change = r.changeOf(d.specs)
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

// changeOf says of an object that could not be read, which a deletion does without, that it is
// left out.
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

func (o override) recorded() *auditv1alpha1.Override {
	return &auditv1alpha1.Override{Result: string(o.result), Of: string(o.of), Code: o.code, Reason: audit.Text(o.reason), Refused: audit.Text(o.refused)}
}

// isReviewed reports whether d rests on a review.
func (d decision) isReviewed() bool { return d.verdict != skipped && d.err == nil }
