package webhook

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// response returns the admission response for d.
func (d decision) response() admission.Response {
	resp := admissionv1.AdmissionResponse{
		Allowed:          d.admitted(),
		Warnings:         warnings(d.warnings),
		AuditAnnotations: d.auditAnnotations(),
	}
	if !resp.Allowed {
		resp.Result = d.status()
	}
	return admission.Response{AdmissionResponse: resp}
}

// status returns why d is a refusal. The API server puts `admission webhook
// "NAME" denied the request: ` in front of the message.
func (d decision) status() *metav1.Status {
	s := &metav1.Status{Status: metav1.StatusFailure, Message: text.Lines(d.message)}
	switch d.verdict {
	case none:
		s.Code, s.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
	case malformed:
		s.Code, s.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	default:
		s.Code, s.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	}
	return s
}

// maxReasonRunes keeps the denial of thousands of images out of the audit log,
// which keeps the beginning: the subject and the first findings.
const maxReasonRunes = 1000

// auditAnnotations returns what the API server's audit log keeps of d, under keys
// that it prefixes with the webhook's name; nil if nothing was reviewed.
func (d decision) auditAnnotations() map[string]string {
	if d.verdict == skipped {
		return nil
	}
	a := map[string]string{"verdict": string(d.verdict)}
	d.annotate(a)
	if d.mode != policy.ModeEnforce {
		a["mode"] = d.mode.String()
	}
	if d.message != "" {
		a["reason"] = audit.Text(d.message)
	}
	if d.override != nil {
		a["override"] = audit.Text(d.override.String())
	}
	if d.err != nil {
		return a
	}
	v := d.record.Verdict
	a["findings"] = strconv.Itoa(len(v.Findings))
	a["rules"] = d.rules()
	if names := v.Exemptions(); len(names) > 0 {
		a["exemptions"] = strings.Join(names, ",")
	}
	a["rerouted"] = strconv.Itoa(v.Counts.Rerouted)
	a["verified"] = strconv.Itoa(v.Counts.Verified)
	a["unverified"] = strconv.Itoa(v.Counts.Unverified)
	if f := d.record.Forecast; f != nil {
		a["forecast"] = text.Cut(text.Line(f.String()), maxReasonRunes)
	}
	return a
}

// rules returns the ids of the rules that objected, each once, in the order of
// the findings, with commas between them.
func (d decision) rules() string {
	var ids []string
	for _, f := range d.record.Verdict.Findings {
		if !slices.Contains(ids, f.Rule) {
			ids = append(ids, f.Rule)
		}
	}
	return strings.Join(ids, ",")
}

// maxNameRunes is the longest that a name in Kubernetes can be (DNS subdomain),
// so that a stranger's review does not fill the log.
const maxNameRunes = 253

// name makes a name that anybody may choose safe for the log.
func name(s string) string { return text.Cut(text.Line(s), maxNameRunes) }

// logDecision writes the one line about d: who wanted what, and what came of it.
// What was not reviewed is logged at verbosity 1 only.
func logDecision(log logr.Logger, r *request, d decision, took time.Duration) {
	log = log.WithValues(
		"kind", name(r.Kind.Kind),
		"name", name(d.proposal.name),
		"operation", name(string(r.Operation)),
		"user", name(r.UserInfo.Username),
		"uid", name(string(r.UID)),
		"dryRun", r.isDryRun(),
		"allowed", d.admitted(),
		"verdict", string(d.verdict),
	)
	if d.mode != policy.ModeEnforce {
		log = log.WithValues("mode", d.mode.String())
	}
	if names := d.record.Verdict.Exemptions(); len(names) > 0 {
		log = log.WithValues("exemptions", names)
	}
	if d.override != nil {
		log = log.WithValues("override", d.override.String())
	}
	counts := d.record.Verdict.Counts
	switch {
	case d.verdict == skipped:
		log.V(1).Info("Admitted without review", "took", took)
	case d.stack != "":
		log.Error(errors.New(brief(d.err)), d.withoutVerdict(), "took", took, "stack", d.stack)
	case d.verdict == overridden:
		log.Info("Admitted refused mirror change by override", "refusal", string(d.override.of), "reason", text.Cut(text.Line(d.message), maxReasonRunes),
			"findings", len(d.record.Verdict.Findings), "rules", d.rules(), "took", took)
	case d.err != nil:
		log.Error(errors.New(brief(d.err)), d.withoutVerdict(), "took", took)
	case d.verdict == waived:
		log.Info("Admitted mirror change that mode enforce would refuse", "reason", text.Cut(text.Line(d.message), maxReasonRunes),
			"findings", len(d.record.Verdict.Findings), "rules", d.rules(),
			"rerouted", counts.Rerouted, "verified", counts.Verified, "unverified", counts.Unverified,
			"took", took)
	default:
		log.Info("Reviewed mirror change",
			"findings", len(d.record.Verdict.Findings), "rules", d.rules(),
			"rerouted", counts.Rerouted, "verified", counts.Verified, "unverified", counts.Unverified,
			"took", took)
	}
}

// withoutVerdict is the message of the log line about d if it has no verdict.
func (d decision) withoutVerdict() string {
	if d.admitted() {
		return "Admitted mirror change without verdict"
	}
	return "Refused mirror change without verdict"
}
