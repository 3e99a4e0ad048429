package webhook

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// An AuditLog keeps records of decisions. *auditlog.Log is one.
type AuditLog interface {
	// Detail says what is to be recorded. It must not block.
	Detail() audit.Detail
	// Record keeps the record of a decision. It must not block.
	Record(d audit.Decision)
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

func specsOf(req admissionv1.AdmissionRequest) (s specs) {
	if req.Operation != admissionv1.Create {
		s.before = specOf(req, req.OldObject.Raw)
	}
	if !isRemoval(req) {
		s.after = specOf(req, req.Object.Raw)
	}
	return s
}

func specOf(req admissionv1.AdmissionRequest, raw []byte) *audit.Spec {
	obj, err := decodeObject(req, raw)
	if err != nil {
		return nil
	}
	if obj.GetName() == "" {
		obj.SetName(req.Name)
	}
	spec, err := audit.SpecOf(obj, kindOf(req))
	if err != nil {
		return nil
	}
	return spec
}

// of sets which request d is about.
func (d *decision) of(req admissionv1.AdmissionRequest) {
	d.uid, d.operation, d.dryRun = text.Cut(text.Line(string(req.UID)), maxNameRunes), name(string(req.Operation)), isDryRun(req)
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
func (h *Handler) record(log logr.Logger, req admissionv1.AdmissionRequest, d decision, took time.Duration) {
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
		h.Audit.Record(d.recorded(req, detail, time.Now().UTC(), took))
	}
}

// recorded returns the record of d.
func (d decision) recorded(req admissionv1.AdmissionRequest, detail audit.Detail, now time.Time, took time.Duration) audit.Decision {
	r := audit.Decision{
		Time:      now.Round(time.Microsecond),
		UID:       d.uid,
		Verdict:   string(d.verdict),
		Admitted:  d.admitted(),
		Mode:      d.mode.String(),
		Operation: d.operation,
		DryRun:    d.dryRun,
		User:      audit.UserOf(requesterOf(req)),
		Object: audit.Object{
			Group: name(req.Kind.Group), Version: name(req.Kind.Version), Kind: name(req.Kind.Kind),
			Namespace: name(req.Namespace), Name: name(d.proposal.name),
		},
		Seconds: took.Round(time.Microsecond).Seconds(),
	}
	if d.message != "" {
		r.Reason = audit.Text(d.message)
	}
	if spec := d.specs.before; spec != nil {
		r.OldSpecHash = spec.Hash
	}
	if spec := d.specs.after; spec != nil {
		r.NewSpecHash = spec.Hash
	}
	if d.override != nil {
		r.Override = d.override.recorded()
	}
	if d.isReviewed() {
		r.Rest(d.record, detail.Facts)
	}
	if detail.Changes && d.verdict != skipped && d.verdict != malformed {
		r.Change = changeOf(req, d.specs)
	}
	return r
}

// changeOf says of an object that could not be read, which a deletion does without, that it is
// left out.
func changeOf(req admissionv1.AdmissionRequest, s specs) *audit.Change {
	c := audit.ChangeOf(stepOf(req), s.before, s.after)
	if s.before == nil && req.Operation != admissionv1.Create {
		c.Omit("the old object could not be read")
	}
	if s.after == nil && c.Step == audit.StepPut {
		c.Omit("the new object could not be read")
	}
	return c
}

func (o override) recorded() *audit.Override {
	return &audit.Override{Result: string(o.result), Of: string(o.of), Code: o.code, Reason: audit.Text(o.reason), Refused: audit.Text(o.refused)}
}

// isReviewed reports whether d rests on a review.
func (d decision) isReviewed() bool { return d.verdict != skipped && d.err == nil }

func stepOf(req admissionv1.AdmissionRequest) string {
	switch {
	case req.Operation == admissionv1.Delete:
		return audit.StepDelete
	case takesAway(req):
		return audit.StepRemoveFinally
	default:
		return audit.StepPut
	}
}
