package webhook

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// An AuditLog keeps records of decisions. *auditlog.Log is one.
type AuditLog interface {
	// Record keeps the record of a decision. It must not block.
	Record(a auditv1alpha1.Decision)
	// Confirm keeps the record of what became of an override. It must not block.
	Confirm(c auditv1alpha1.Confirmation)
	// Omit keeps the record of how many requests of senders that are not known have none. It must not block.
	Omit(requests int, since time.Time)
}

// write logs a, and hands its record to the audit log if there was anything to review, unless its sender is not
// known and much was written for such lately. A failure of that is logged, and does not change the answer.
func (h *Handler) write(ctx context.Context, a answer, took time.Duration) {
	log := log.FromContext(ctx)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "Could not record decision", "uid", name(string(a.request.UID)))
		}
	}()
	record, size := a.recorded(time.Now().UTC(), took), 0
	if record.SenderNotKnown = !isKnown(ctx); record.SenderNotKnown {
		line, _ := record.Line() // the audit log reports one that cannot be written
		size = len(line) + len(a.message) + leastLine
		log = log.WithValues("senderNotKnown", true)
	}
	if !h.mayWrite(ctx, size) {
		return
	}
	logAnswer(log, a, took)
	if h.Audit != nil && a.verdict != skipped {
		h.Audit.Record(record)
	}
}

// recorded returns the record of a.
func (a answer) recorded(now time.Time, took time.Duration) auditv1alpha1.Decision {
	r := a.request
	record := auditv1alpha1.Decision{
		Time:      now.Round(time.Microsecond),
		UID:       name(string(r.UID)),
		Verdict:   string(a.verdict),
		Admitted:  a.admitted(),
		Mode:      a.mode.String(),
		Operation: name(string(r.Operation)),
		DryRun:    r.isDryRun(),
		User:      audit.UserOf(r.requester()),
		Object:    r.recorded(a.proposal.name),
		Seconds:   took.Round(time.Microsecond).Seconds(),
		Reason:    audit.Text(a.message),

		OldSpecHash: a.hashes.before, NewSpecHash: a.hashes.after,
	}
	if o := a.override; o != nil {
		record.Override = &auditv1alpha1.Override{Result: string(o.result), Of: string(o.refusal), Code: o.code, Reason: audit.Text(o.reason), Refused: audit.Text(o.objection)}
	}
	if a.err == nil {
		audit.Rest(&record, a.record)
	}
	return record
}

// recorded returns the object of r, which may have no other name than the request's.
func (r *request) recorded(called string) auditv1alpha1.Object {
	return auditv1alpha1.Object{
		Group: name(r.Kind.Group), Version: name(r.Kind.Version), Kind: name(r.Kind.Kind),
		Namespace: name(r.Namespace), Name: name(called),
	}
}

// confirm hands the record of what became of an override of r to the audit log.
func (h *Handler) confirm(r *request, called string, confirmed bool) {
	if h.Audit != nil {
		h.Audit.Confirm(auditv1alpha1.Confirmation{
			Time: time.Now().UTC().Round(time.Microsecond), UID: name(string(r.UID)), Confirmed: confirmed,
			User: audit.UserOf(r.requester()), Object: r.recorded(called),
		})
	}
}
