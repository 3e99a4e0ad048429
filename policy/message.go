package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
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
func (j Judgement) headline(head, why string) string {
	denials := j.withSeverity(Deny)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		why = text.Line(whole[0].Reason)
	}
	return fmt.Sprintf("%s: %s.", head, why)
}

// short returns an answer with the worst denials in full, and counts of the others. Sync is the command that copies what mirrors lack.
func (j Judgement) short(headline, sync string) *answer.Answer {
	a := &answer.Answer{Headline: headline}
	denials := j.withSeverity(Deny)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		lines := convert.Each(whole, func(f Finding) string { return f.Rule + ": " + strings.Join(f.Detail, "; ") })
		a.Lead = convert.Each(text.First(lines, maxReasonList, ""), func(line string) answer.Line { return answer.Say("- " + line) })
		if len(whole) > 0 {
			a.Lead = append(a.Lead, answer.Sayf("To do: %s.", whole[0].Remedy[0]))
		}
		return a
	}
	shown := min(maxDetailed, len(denials))
	told := toldWithout(denials[:shown], manyCopies(denials))
	for i := range told {
		told[i].Detail = text.First(told[i].Detail, maxPlaces, "place")
	}
	a.Add(told)
	if rest := denials[shown:]; len(rest) > 0 {
		a.Add(answer.List{Title: fmt.Sprintf("And %s more:", text.Number(len(rest))), Items: answer.Bullets(text.First(byRule(rest), maxGroups, "rule"))})
	}
	j.addRemedies(a, sync)
	return a
}

// full returns an answer with all denials and warnings; in a page below a title, with remarks.
func (j Judgement) full(subject, headline, sync, title string) *answer.Answer {
	a := &answer.Answer{Subject: subject, Headline: headline}
	denials := j.withSeverity(Deny)
	a.Add(answer.Section{ID: "findings", Title: title}, append(toldWithout(denials, manyCopies(denials)), Told(j.withSeverity(Warn))...),
		answer.Drawn{Blocks: func() []answer.Block { return []answer.Block{Told(j.withSeverity(Info))} }})
	j.addRemedies(a, sync)
	return a
}

// toldWithout is Told without the commands that copy, if these are made together.
func toldWithout(findings []Finding, together bool) answer.Findings {
	return convert.Each(findings, func(f Finding) answer.Finding {
		if together {
			f = f.withoutCopy()
		}
		return f.Told()
	})
}

// addRemedies says what would help, beside the remedies of the findings.
func (j Judgement) addRemedies(a *answer.Answer, sync string) {
	if manyCopies(j.withSeverity(Deny)) {
		a.Add(answer.Paragraph{{{Text: "To copy to the mirrors what they lack: "}, {Text: sync, Code: true}}})
	}
	if j.Counts.Pending > 0 {
		a.Add(answer.Paragraphf("%s of %s looked up when time was up; the others follow. Apply again in 10 s.",
			text.Number(j.Counts.Rerouted-j.Counts.Pending), text.Number(j.Counts.Rerouted)))
	}
}

// verified counts the images that nodes verifiably get, of those that are rerouted.
func (j Judgement) verified() string {
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

func ofConfiguration(findings []Finding) []Finding {
	return only(findings, func(f *Finding) bool { return f.Image.Ref == "" })
}

// only returns the findings that are wanted. Usually these are all, or a few in a row, which are
// not copied: there may be 100,000.
func only(findings []Finding, wanted func(*Finding) bool) []Finding {
	first := 0
	for first < len(findings) && !wanted(&findings[first]) {
		first++
	}
	end := first
	for end < len(findings) && wanted(&findings[end]) {
		end++
	}
	found := findings[first:end:end]
	for i := end; i < len(findings); i++ {
		if wanted(&findings[i]) {
			found = append(found, findings[i])
		}
	}
	return found
}

// Told returns f in the words in which answers tell it.
func (f Finding) Told() answer.Finding {
	told := answer.Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Tone: tones[f.Severity], Subject: f.Image.Ref, Users: f.Image.users(), Namespaces: f.Image.namespaces(),
		Reason: f.Reason, Detail: f.Detail, Remedy: f.Remedy,
	}
	if line := exemptLine(f); line != "" {
		told.Detail = slices.Concat(f.Detail, []string{line})
	}
	return told
}

var tones = [...]answer.Tone{Info: answer.Plain, Warn: answer.Caution, Deny: answer.Bad}

// Told returns findings in the words in which answers tell them.
func Told(findings []Finding) answer.Findings { return convert.Each(findings, Finding.Told) }

// exemptLine is the line about the exemptions of f; "" if there are none.
func exemptLine(f Finding) string {
	switch len(f.Exemptions) {
	case 0:
		return ""
	case 1:
		return "no denial because of the exemption " + text.Line(f.Exemptions[0])
	default:
		return "no denial because of the exemptions " + text.Names(f.Exemptions, maxConsumers)
	}
}

// byRule counts findings by rule and namespace.
func byRule(findings []Finding) []string {
	return convert.Each(groupByRule(findings), func(g group) string {
		if g.whole {
			return g.rule + ": " + g.reason
		}
		return fmt.Sprintf("%s: %s (%s)", g.rule, text.Count(len(g.findings), "image"), namespaces(g.findings, maxConsumers))
	})
}

type group struct {
	rule     string
	whole    bool // whether they are about the configuration, not images
	reason   string
	findings []*Finding
}

// groupByRule keeps the order in which rules first appear.
func groupByRule(findings []Finding) []group {
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
func namespaces(findings []*Finding, limit int) string {
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
