package page

import (
	"fmt"
	"net/url"
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// maxReason is how much of a reason a row shows, in characters, and maxGroups how many groups of a user are named.
const maxReason, maxGroups = 300, 12

// verdictTones has the tone of each verdict that is not merely a remark.
var verdictTones = map[string]answer.Tone{
	"allowed": answer.Good, "denied": answer.Bad, "none": answer.Unknown, "waived": answer.Caution, "overridden": answer.Caution, "malformed": answer.Unknown,
}

// Decisions are a table of decisions, each of which leads to its page.
func Decisions(all []auditv1alpha1.Decision) []answer.Block {
	t := answer.Table{Title: "The latest first", Head: []string{"Time", "Verdict", "Change", "User", "Reason"}}
	for i := range all {
		d := &all[i]
		row := answer.Row(answer.Moment(d.Time), d.Verdict, decided(d), d.User.Name, text.Cut(text.ShortDigests(d.Reason), maxReason))
		row[0][0].Link, row[1][0].Tone = "?change="+url.QueryEscape(d.UID), verdictTones[d.Verdict]
		t.Rows = append(t.Rows, row)
	}
	if len(all) == 0 {
		return nil
	}
	return []answer.Block{answer.Section{ID: "decisions", Title: "Last decisions"}, answer.Paragraphf("Those of this replica since it started."), t}
}

// decided says what a decision is about.
func decided(d *auditv1alpha1.Decision) string {
	what := d.Operation + " " + d.Object.Kind + " " + d.Object.Name
	if d.DryRun {
		what += " (dry run)"
	}
	if d.SenderNotKnown {
		what += " (sender not known)"
	}
	return what
}

// Decision returns a recorded decision.
func Decision(d auditv1alpha1.Decision) *answer.Answer {
	a := &answer.Answer{Verdict: d.Verdict, Tone: verdictTones[d.Verdict], Subject: decided(&d), Headline: decided(&d), Notes: d.Notes}
	if d.FindingsOmitted > 0 {
		a.Notes = append(a.Notes, text.Count(d.FindingsOmitted, "finding")+" are left out of the record.")
	}
	a.Add(answer.Named{Name: "Mode", Value: d.Mode}, answer.Named{Name: "Request", Value: d.UID}, answer.Named{Name: "Replica", Value: d.Guard.Replica},
		answer.Named{Name: "Time taken", Value: fmt.Sprintf("%.2g s", d.Seconds)})
	if d.Reason != "" {
		a.Add(answer.Paragraphf("%s", d.Reason))
	}
	a.Add(answer.Section{ID: "findings", Title: "Findings"}, Findings(d.Findings))
	if d.Forecast != "" {
		a.Add(answer.Section{ID: "rollout", Title: "The rollout"}, answer.Paragraphf("Forecast: it %s.", d.Forecast))
	}
	return a
}

// Asker names who asked for a decision.
func Asker(u auditv1alpha1.User) string {
	if len(u.Groups) == 0 {
		return u.Name
	}
	return u.Name + " (" + text.Names(u.Groups, maxGroups) + ")"
}

var severityTones = map[string]answer.Tone{"deny": answer.Bad, "warn": answer.Caution}

// Findings are those of a document.
func Findings(all []v1alpha1.Finding) answer.Findings {
	return convert.Each(all, func(f v1alpha1.Finding) answer.Finding {
		return answer.Finding{
			Rule: f.Rule, Severity: f.Severity, Tone: severityTones[f.Severity], Subject: f.Image, Reason: f.Reason,
			Users: convert.Each(f.Consumers, consumerName), Namespaces: namespacesOf(f.Consumers), Detail: lines(f.Detail), Remedy: lines(f.Remedy),
		}
	})
}

func lines(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }) }

// consumerName names a consumer as "Deployment shop/cart (app)".
func consumerName(c v1alpha1.Consumer) string {
	name := c.Kind + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
	if c.Container != "" {
		name += " (" + c.Container + ")"
	}
	return name
}
