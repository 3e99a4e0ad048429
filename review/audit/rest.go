// Package audit makes the records of the webhook's decisions: who asked for what, how it was
// answered, and on what grounds. Package api/audit/v1alpha1 has the schema.
//
//	d := auditv1alpha1.Decision{UID: uid, Verdict: "denied"} // and who, what, when
//	audit.Rest(&d, record)                           // the findings, counts and forecast of a review
//	line, err := d.Line()
//
// A record holds no secrets: credentials are left out of its fields. Every list in it is bounded, and
// says how much was left out.
//
// The package is pure: package auditlog writes lines.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// The bounds of a record. With them, a line has some 100 KB at most, and 1 to 5 KB as a rule.
const (
	// maxName is the longest that a name in Kubernetes can be (a DNS subdomain).
	maxName     = 253
	maxGroups   = 64
	maxFindings = 20
	maxLines    = 8
	// maxConsumers is how many users of an image are named.
	maxConsumers = 5
	maxNotes     = 16
	// maxText is for what may be a list of thousands of images: a denial.
	maxText = 1000
	// maxLine is for one line of it.
	maxLine = 300
)

// Text returns s as records have texts: a line of bounded length, without credentials.
func Text(s string) string { return text.Cut(text.WithoutCredentials(text.Line(s)), maxText) }

func line(s string) string { return text.Cut(text.WithoutCredentials(text.Line(s)), maxLine) }

// UserOf returns who makes a request. Names are cut and not altered otherwise: a line of JSON
// escapes what does not print.
func UserOf(r settings.Requester) auditv1alpha1.User {
	u := auditv1alpha1.User{Name: text.Cut(r.User, maxName)}
	u.Groups = convert.Each(r.Groups[:min(len(r.Groups), maxGroups)], func(group string) string { return text.Cut(group, maxName) })
	u.GroupsOmitted = len(r.Groups) - len(u.Groups)
	return u
}

// Rest sets what d rests on.
func Rest(d *auditv1alpha1.Decision, r review.Record) {
	v := r.Verdict
	d.Rules = countRules(v.Findings)
	d.Findings = convert.Each(v.Findings[:min(len(v.Findings), maxFindings)], findingOf)
	d.FindingsOmitted = len(v.Findings) - len(d.Findings)
	d.Exemptions = words.Exemptions(v)
	images := v1alpha1.Counts(v.Counts)
	d.Images = &images
	if r.Forecast != nil {
		d.Forecast = Text(r.Forecast.String())
	}
	d.Notes = convert.Each(r.Notes[:min(len(r.Notes), maxNotes)], line)
}

// countRules counts findings in the order in which they come first.
func countRules(findings []policy.Finding) []auditv1alpha1.RuleCount {
	var counts []auditv1alpha1.RuleCount
	for _, f := range findings {
		i := slices.IndexFunc(counts, func(c auditv1alpha1.RuleCount) bool { return c.Rule == f.Rule && c.Severity == f.Severity.String() })
		if i < 0 {
			i, counts = len(counts), append(counts, auditv1alpha1.RuleCount{Rule: f.Rule, Severity: f.Severity.String()})
		}
		counts[i].Count++
	}
	return counts
}

func findingOf(f policy.Finding) v1alpha1.Finding {
	few := f.Image
	few.Consumers = few.Consumers[:min(len(few.Consumers), maxConsumers)]
	out := v1alpha1.Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Image: line(f.Image.Ref), Reason: line(f.Reason), Detail: lines(f.Detail), Remedy: lines(f.Remedy),
		Consumers: review.ConsumerDocuments(few), ConsumersOmitted: len(f.Image.Consumers) - len(few.Consumers), Exemptions: f.Exemptions,
	}
	for i := range out.Consumers {
		out.Consumers[i].Container = line(out.Consumers[i].Container) // which may name a key of a user's choice
	}
	return out
}

func lines(all []string) string {
	return strings.Join(convert.Each(text.First(all, maxLines, "line"), line), "\n")
}

// SpecHash returns the SHA-256 of the canonical spec of o: "sha256:" and 64 digits.
func SpecHash(o mirrors.Object) (string, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	var fields struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(withoutNothing(fields.Spec))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// withoutNothing returns a copy of decoded JSON without fields that are null or an empty list, which
// means for an API server that they are not set (equality.Semantic of k8s.io/apimachinery).
func withoutNothing(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			if list, ok := field.([]any); field != nil && (!ok || len(list) > 0) {
				kept[name] = withoutNothing(field)
			}
		}
		return kept
	case []any:
		return convert.Each(v, withoutNothing)
	default:
		return value
	}
}
