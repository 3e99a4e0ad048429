package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Release is the one that an update of the cluster asks for, with what is known of its images.
type Release struct {
	// Name is what messages call it, and Asked what check --release takes for it: a version, or the reference of the
	// release image.
	Name, Asked string
	// Counts are those of its images, the release image among them: all are Rerouted.
	Counts Counts
	// Missing says what is known to be missing, or to be refused, and Open what could not be determined: a line each,
	// in the order in which the update would need it. MissingImages and OpenImages count the images among it.
	Missing, Open             []string
	MissingImages, OpenImages int
	// Unread is set if its release image could not be read, so that it is not known which others it has.
	Unread bool
	// Remedy is what to do about Missing, "" if nothing is known to help.
	Remedy string
}

// A releaseRule objects to an update.
type releaseRule struct {
	id    string
	check func(*Release, Settings) (Finding, bool)
}

// releaseRules are the rules for updates.
var releaseRules = []releaseRule{
	{ReleaseNotReady, releaseNotReady},
	{ReleaseUnknown, releaseUnknown},
}

// DecideRelease judges an update to r. It is a function of its arguments only.
func (s Settings) DecideRelease(r Release) Verdict {
	s = s.forNoChange()
	v := Verdict{Counts: r.Counts, Release: &r}
	for _, rule := range releaseRules {
		f, ok := rule.check(&r, s)
		if !ok {
			continue
		}
		f.Rule = rule.id
		v.Findings = append(v.Findings, s.forWhole().settle(f, false))
	}
	v.conclude(s)
	return v
}

// ReleaseNotReady: something that the update needs is known to be missing. CVO would find that out node by node, half
// way. By default this warns: whether to go on regardless is for those who update.
func releaseNotReady(r *Release, _ Settings) (Finding, bool) {
	if len(r.Missing) == 0 {
		return Finding{}, false
	}
	f := Finding{Severity: Warn, Reason: "release " + r.Name + " is not ready: " + r.Missing[0], Detail: r.Missing, Remedy: []string{"see what is missing: " + r.check()}}
	if r.MissingImages > 0 && !r.Unread {
		f.Reason = fmt.Sprintf("release %s: %s cannot be pulled by all nodes that need %s", r.Name, r.of(r.MissingImages), itThem(r.MissingImages))
	}
	if r.Remedy != "" {
		f.Remedy = []string{r.Remedy}
	}
	return f, true
}

// ReleaseUnknown: something that the update needs could not be determined. What is missing for all that is known may
// be missing for good: unless a setting for this rule says otherwise, it weighs as much as what is known to be missing.
func releaseUnknown(r *Release, s Settings) (Finding, bool) {
	if len(r.Open) == 0 {
		return Finding{}, false
	}
	f := Finding{
		Severity: s.severity(Finding{Rule: ReleaseNotReady, Severity: Warn}, false),
		Reason:   "release " + r.Name + ": whether it is ready could not be determined: " + r.Open[0],
		Detail:   r.Open, Remedy: []string{"see what could not be determined: " + r.check()},
	}
	switch {
	case r.Unread:
		f.Reason = "release " + r.Name + ": which images it has is not known: " + r.Open[0]
	case r.Counts.Pending > 0:
		f.Reason = fmt.Sprintf("release %s: %s %s still being looked up; ask again in 10 s", r.Name, r.of(r.Counts.Pending), isAre(r.Counts.Pending))
		f.Remedy = []string{"ask again in 10 s, when more is known"}
	case r.OpenImages > 0:
		f.Reason = fmt.Sprintf("release %s: whether nodes can pull %s could not be determined", r.Name, r.of(r.OpenImages))
	}
	return f, true
}

// of says "3 of its 191 images".
func (r *Release) of(n int) string {
	return fmt.Sprintf("%s of its %s", text.Number(n), text.Count(r.Counts.Rerouted, "image"))
}

func itThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// check is the command that says everything.
func (r *Release) check() string { return "mirrorset-guard check --release " + r.Asked }

// answer says in a clause that nothing is to be said against the update.
func (r *Release) answer() string {
	return fmt.Sprintf("release %s is ready: all nodes can pull what they need of its %s", r.Name, text.Count(r.Counts.Rerouted, "image"))
}

// writeRelease explains the denials of an update.
func (v Verdict) writeRelease(b *strings.Builder, subject string, denials []Finding) {
	fmt.Fprintf(b, "%s %s: %s.\n", subject, v.answer(), text.Line(denials[0].Reason))
	for _, f := range denials {
		var lines []string
		for _, line := range f.Detail {
			lines = append(lines, f.Rule+": "+text.Line(line))
		}
		writeLines(b, text.First(lines, maxReasonList, ""))
	}
	for _, f := range denials {
		for _, line := range f.Remedy {
			fmt.Fprintf(b, "To do: %s\n", text.Lines(line))
		}
	}
}

// maxTold is how many details of each finding about an update its warnings tell.
const maxTold = 3

// releaseWarnings are those about an update, beside what its mode and exemptions admit.
func (v Verdict) releaseWarnings(subject string) []string {
	var warnings []string
	switch {
	case v.Waived():
		warnings = v.waivedWarnings(subject)
	case v.Allowed && len(v.Findings) == 0:
		warnings = []string{cut(subject + ": " + v.Release.answer())}
	}
	warnings = append(warnings, v.exemptionWarnings()...)
	for _, g := range groupByRule(v.notExempt(Warn)) {
		warnings = append(warnings, warning(g))
	}
	for _, f := range v.Findings {
		if f.Severity == Info || f.Severity == Deny && !v.Allowed {
			continue
		}
		for _, line := range text.First(f.Detail, maxTold, "") {
			warnings = append(warnings, cut("- "+line))
		}
	}
	if len(warnings) > 0 && len(v.Findings) > 0 && v.Allowed {
		warnings = append(warnings, "For the full list: "+v.Release.check())
	}
	return warnings
}
