// Package words puts verdicts to people: the answer to a person who asked for a change, warnings, and a sentence.
// It decides how much of a verdict is told, and nothing of the verdict. Of the rooms it imports package policy.
package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Limits of one message. A terminal shows a denial of some forty lines; the API server cuts
// warnings if together they exceed 4,096 runes
// (k8s.io/apiserver/pkg/endpoints/filters/warning.go).
const (
	maxDetailed   = 3   // findings in full
	maxPlaces     = 10  // lines about places of a route
	maxGroups     = 6   // lines of counts
	maxWarning    = 120 // runes of one warning
	maxReasonList = 10  // reasons for which a configuration is invalid
)

// headline says after head, which names the subject, what its denials are, and how many images they are about: why.
func headline(j policy.Judgement, head, why string) string {
	denials := j.WithSeverity(policy.Deny)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		why = text.Line(whole[0].Reason)
	}
	return fmt.Sprintf("%s: %s.", head, why)
}

// short returns an answer with the worst denials in full, and counts of the others. Sync is the command that copies what mirrors lack.
func short(j policy.Judgement, headline, sync string) *answer.Answer {
	a := &answer.Answer{Headline: headline}
	denials := j.WithSeverity(policy.Deny)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		lines := convert.Each(whole, func(f policy.Finding) string { return f.Rule + ": " + strings.Join(f.Detail, "; ") })
		a.Lead = convert.Each(text.First(lines, maxReasonList, ""), func(line string) answer.Line { return answer.Say("- " + line) })
		if len(whole) > 0 {
			a.Lead = append(a.Lead, answer.Sayf("To do: %s.", whole[0].Remedy[0]))
		}
		return a
	}
	shown := min(maxDetailed, len(denials))
	told := toldWithout(denials[:shown], policy.ManyCopies(denials))
	for i := range told {
		told[i].Detail = text.First(told[i].Detail, maxPlaces, "place")
	}
	a.Add(told)
	if rest := denials[shown:]; len(rest) > 0 {
		a.Add(answer.List{Title: fmt.Sprintf("And %s more:", text.Number(len(rest))), Items: answer.Bullets(text.First(byRule(rest), maxGroups, "rule"))})
	}
	addRemedies(j, a, sync)
	return a
}

// full returns an answer with all denials and warnings; in a page below a title, with remarks.
func full(j policy.Judgement, subject, headline, sync, title string) *answer.Answer {
	a := &answer.Answer{Subject: subject, Headline: headline}
	denials := j.WithSeverity(policy.Deny)
	told := append(toldWithout(denials, policy.ManyCopies(denials)), Told(j.WithSeverity(policy.Warn))...)
	a.Add(answer.Section{ID: "findings", Title: title}, answer.Printed{Block: told},
		answer.Drawn{Blocks: func() []answer.Block { return []answer.Block{slices.Concat(told, Told(j.WithSeverity(policy.Info)))} }})
	addRemedies(j, a, sync)
	return a
}

// toldWithout is Told without the commands that copy, if these are made together.
func toldWithout(findings []policy.Finding, together bool) answer.Findings {
	return convert.Each(findings, func(f policy.Finding) answer.Finding {
		if together {
			f = f.WithoutCopy()
		}
		return OfFinding(f)
	})
}

// addRemedies says what would help, beside the remedies of the findings.
func addRemedies(j policy.Judgement, a *answer.Answer, sync string) {
	if policy.ManyCopies(j.WithSeverity(policy.Deny)) {
		a.Add(answer.Paragraph{{{Text: "To copy to the mirrors what they lack: "}, {Text: sync, Code: true}}})
	}
	if j.Counts.Pending > 0 {
		a.Add(answer.Paragraphf("%s of %s looked up when time was up; the others follow. Apply again in 10 s.",
			text.Number(j.Counts.Rerouted-j.Counts.Pending), text.Number(j.Counts.Rerouted)))
	}
}

// verifiedOf counts the images that nodes verifiably get, of those that are rerouted.
func verifiedOf(j policy.Judgement) string {
	switch c := j.Counts; {
	case c.Rerouted == 0:
		return "so there was nothing to verify"
	case j.Partial: // there may be others
	case c.Rerouted == c.Verified:
		return "all verified"
	case c.Rerouted == c.Assumed:
		return "all assumed"
	}
	return j.Counts.AssumedToo() + text.Number(j.Counts.Verified) + " verified"
}

// outOf says "2 of the 5 images", or that it is all of them.
func outOf(n, all int) string {
	switch {
	case all == 1:
		return "the one image"
	case n == 2 && all == 2:
		return "both images"
	case n == all:
		return "all " + text.Count(all, "image")
	default:
		return text.Number(n) + " of the " + text.Count(all, "image")
	}
}

// unparsed says that denials are about references alone.
func unparsed(n int) string {
	return text.Plural(n, "reference", "references") + " could not be parsed by any node"
}

func ofConfiguration(findings []policy.Finding) []policy.Finding {
	return policy.Only(findings, func(f *policy.Finding) bool { return f.Image.Ref == "" })
}

// OfFinding returns f in the words in which answers tell it.
func OfFinding(f policy.Finding) answer.Finding {
	told := answer.Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Tone: tones[f.Severity], Subject: f.Image.Ref, Users: f.Image.Users(), Namespaces: f.Image.Namespaces(),
		Reason: f.Reason, Detail: f.Detail, Remedy: f.Remedy,
	}
	if line := exemptLine(f); line != "" {
		told.Detail = slices.Concat(f.Detail, []string{line})
	}
	return told
}

var tones = [...]answer.Tone{policy.Info: answer.Plain, policy.Warn: answer.Caution, policy.Deny: answer.Bad}

// Told returns findings in the words in which answers tell them.
func Told(findings []policy.Finding) answer.Findings { return convert.Each(findings, OfFinding) }

// exemptLine is the line about the exemptions of f; "" if there are none.
func exemptLine(f policy.Finding) string {
	switch len(f.Exemptions) {
	case 0:
		return ""
	case 1:
		return "no denial because of the exemption " + text.Line(f.Exemptions[0])
	default:
		return "no denial because of the exemptions " + text.Names(f.Exemptions, policy.MaxConsumers)
	}
}

// byRule counts findings by rule and namespace.
func byRule(findings []policy.Finding) []string {
	return convert.Each(groupByRule(findings), func(g group) string {
		if g.whole {
			return g.rule + ": " + g.reason
		}
		return fmt.Sprintf("%s: %s (%s)", g.rule, text.Count(len(g.findings), "image"), namespaces(g.findings, policy.MaxConsumers))
	})
}

type group struct {
	rule     string
	whole    bool // whether they are about the configuration, not images
	reason   string
	findings []*policy.Finding
}

// groupByRule keeps the order in which rules first appear.
func groupByRule(findings []policy.Finding) []group {
	var groups []group
	for n := range findings {
		f := &findings[n] // there may be 100,000
		whole := f.Image.Ref == ""
		i := slices.IndexFunc(groups, func(g group) bool { return g.rule == f.Rule && g.whole == whole })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{rule: f.Rule, whole: whole, reason: f.Reason})
		}
		groups[i].findings = append(groups[i].findings, f)
	}
	return groups
}

// namespaces counts findings by the namespace of their first consumer.
func namespaces(findings []*policy.Finding, limit int) string {
	counts := map[string]int{}
	var order []string
	for _, f := range findings {
		ns := "cluster"
		if len(f.Image.Consumers) > 0 && f.Image.Consumers[0].Namespace != "" {
			ns = f.Image.Consumers[0].Namespace
		}
		if counts[ns]++; counts[ns] == 1 {
			order = append(order, ns)
		}
	}
	var parts []string
	for i, ns := range order {
		if i == limit {
			parts = append(parts, text.Count(len(order)-i, "more namespace"))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s", text.Line(ns), text.Number(counts[ns])))
	}
	return strings.Join(parts, ", ")
}

func warning(g group) string {
	first := g.findings[0]
	if g.whole {
		return cut(g.rule + ": " + g.reason)
	}
	return cut(fmt.Sprintf("%s: %s: %s; first %s", g.rule, text.Count(len(g.findings), "image"), g.reason, text.ShortDigest(first.Image.Ref)))
}

// cut makes a warning one line, and shortens it to its limit.
func cut(s string) string { return text.Cut(text.Line(s), maxWarning) }
