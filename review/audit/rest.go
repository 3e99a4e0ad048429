package audit

import (
	"slices"
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
func UserOf(r policy.Requester) auditv1alpha1.User {
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
	d.Exemptions = v.Exemptions()
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
