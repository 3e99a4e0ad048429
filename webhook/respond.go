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

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// response returns the admission response for a.
func (a answer) response() admissionv1.AdmissionResponse {
	resp := admissionv1.AdmissionResponse{
		Allowed:          a.admitted(),
		Warnings:         warnings(a.warnings),
		AuditAnnotations: a.auditAnnotations(),
	}
	if !resp.Allowed {
		resp.Result = a.status()
	}
	return resp
}

// status returns why a is a refusal. The API server puts `admission webhook
// "NAME" denied the request: ` in front of the message.
func (a answer) status() *metav1.Status {
	s := &metav1.Status{Status: metav1.StatusFailure, Message: text.Lines(a.message)}
	switch a.verdict {
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

// auditAnnotations returns what the API server's audit log keeps of a, under keys
// that it prefixes with the webhook's name; nil if nothing was reviewed.
func (a answer) auditAnnotations() map[string]string {
	if a.verdict == skipped {
		return nil
	}
	// The API server's log has its verb instead of the operation, and not the dry run of a deletion.
	annotations := map[string]string{"verdict": string(a.verdict), "uid": name(string(a.request.UID)), "operation": name(string(a.request.Operation))}
	if a.request.isDryRun() {
		annotations["dryRun"] = "true"
	}
	for key, hash := range map[string]string{"oldSpecHash": a.hashes.before, "newSpecHash": a.hashes.after} {
		if hash != "" {
			annotations[key] = hash
		}
	}
	if a.mode != policy.ModeEnforce {
		annotations["mode"] = a.mode.String()
	}
	if a.message != "" {
		annotations["reason"] = audit.Text(a.message)
	}
	if a.override != nil {
		annotations["override"] = audit.Text(a.override.String())
	}
	if a.err != nil {
		return annotations
	}
	v := a.record.Verdict
	annotations["findings"] = strconv.Itoa(len(v.Findings))
	annotations["rules"] = a.rules()
	if names := words.Exemptions(v); len(names) > 0 {
		annotations["exemptions"] = strings.Join(names, ",")
	}
	annotations["rerouted"] = strconv.Itoa(v.Counts.Rerouted)
	annotations["verified"] = strconv.Itoa(v.Counts.Verified)
	annotations["unverified"] = strconv.Itoa(v.Counts.Unverified)
	if f := a.record.Forecast; f != nil {
		annotations["forecast"] = text.Cut(text.Line(f.String()), maxReasonRunes)
	}
	return annotations
}

// rules returns the ids of the rules that objected, each once, in the order of
// the findings, with commas between them.
func (a answer) rules() string {
	var ids []string
	for _, f := range a.record.Verdict.Findings {
		if !slices.Contains(ids, f.Rule) {
			ids = append(ids, f.Rule)
		}
	}
	return strings.Join(ids, ",")
}

// maxNameRunes is the longest that a name in Kubernetes can be (DNS subdomain),
// which keeps a stranger's review from filling the log.
const maxNameRunes = 253

// name makes a name that a user chose safe for the log.
func name(s string) string { return text.Cut(text.Line(s), maxNameRunes) }

// logAnswer writes the one line about a: who asked for what, and how it was answered.
// A request without a review is logged at verbosity 1 only.
func logAnswer(log logr.Logger, a answer, took time.Duration) {
	r := a.request
	log = log.WithValues(
		"kind", name(r.Kind.Kind),
		"name", name(a.proposal.name),
		"operation", name(string(r.Operation)),
		"user", name(r.UserInfo.Username),
		"uid", name(string(r.UID)),
		"dryRun", r.isDryRun(),
		"allowed", a.admitted(),
		"verdict", string(a.verdict),
	)
	if a.mode != policy.ModeEnforce {
		log = log.WithValues("mode", a.mode.String())
	}
	if names := words.Exemptions(a.record.Verdict); len(names) > 0 {
		log = log.WithValues("exemptions", names)
	}
	if a.override != nil {
		log = log.WithValues("override", a.override.String())
	}
	message, reason := "Reviewed mirror change", text.Cut(text.Line(a.message), maxReasonRunes)
	switch {
	case a.verdict == skipped:
		log.V(1).Info("Admitted without review", "took", took)
		return
	case a.stack != "":
		log.Error(errors.New(brief(a.err)), a.withoutVerdict(), "took", took, "stack", a.stack)
		return
	case a.verdict == overridden:
		message, log = "Admitted refused mirror change by override", log.WithValues("refusal", string(a.override.refusal), "reason", reason)
	case a.err != nil:
		log.Error(errors.New(brief(a.err)), a.withoutVerdict(), "took", took)
		return
	case a.verdict == waived:
		message, log = "Admitted mirror change that mode enforce would refuse", log.WithValues("reason", reason)
	}
	counts := a.record.Verdict.Counts
	log.Info(message, "findings", len(a.record.Verdict.Findings), "rules", a.rules(),
		"rerouted", counts.Rerouted, "verified", counts.Verified, "unverified", counts.Unverified, "took", took)
}

// withoutVerdict is the message of the log line about a if it has no verdict.
func (a answer) withoutVerdict() string {
	if a.admitted() {
		return "Admitted mirror change without verdict"
	}
	return "Refused mirror change without verdict"
}

// The API server's limits for warnings (k8s.io/apiserver,
// pkg/endpoints/filters/warning.go): beyond 4,096 runes in total it cuts each to 256 and drops the
// rest. So many warnings, cut to that length, never get there.
const (
	maxWarningRunes = 256
	maxWarningTotal = 4096
	maxWarnings     = maxWarningTotal / maxWarningRunes
)

// warnings prepares lines so that the API server delivers them: each becomes one line of limited
// length, and if there are too many, the last one counts the rest. The API server drops a
// warning that contains a control character (NewWarningHeader in k8s.io/apimachinery,
// pkg/util/net/http.go).
func warnings(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line = text.Cut(text.Line(line), maxWarningRunes); line != "" {
			out = append(out, line)
		}
	}
	if len(out) <= maxWarnings {
		return out
	}
	return text.First(out, maxWarnings-1, "warning")
}
