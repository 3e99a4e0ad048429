package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Limits of one message. A terminal shows a denial of some forty lines; the API server cuts
// warnings if together they exceed 4,096 runes
// (k8s.io/apiserver/pkg/endpoints/filters/warning.go).
const (
	maxDetailed   = 3   // findings in full
	maxConsumers  = 3   // consumers named for an image
	maxPlaces     = 10  // lines about places of a route
	maxGroups     = 6   // lines of counts
	maxWarning    = 120 // runes of one warning
	maxReasonList = 10  // reasons for which a configuration is invalid
)

// writeFaults says after head, which names the subject, what its denials are, and how many images they are about: why. It gives
// the first limit in full. Sync is the command that copies what mirrors lack.
func (j Judgement) writeFaults(b *strings.Builder, head, why, sync string, limit int) {
	denials := j.withSeverity(Deny)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		fmt.Fprintf(b, "%s: %s.\n", head, text.Line(whole[0].Reason))
		lines := convert.Each(whole, func(f Finding) string { return f.Rule + ": " + text.Line(strings.Join(f.Detail, "; ")) })
		writeLines(b, text.First(lines, maxReasonList, ""))
		fmt.Fprintf(b, "To do: %s.\n", whole[0].Remedy[0])
		return
	}
	fmt.Fprintf(b, "%s: %s.\n", head, why)
	together := manyCopies(denials)
	for i, f := range denials[:min(limit, len(denials))] {
		fmt.Fprintf(b, "\n%d. ", i+1)
		if limit == maxDetailed {
			f.Detail = text.First(f.Detail, maxPlaces, "place")
		}
		if together {
			f = f.withoutCopy()
		}
		writeFinding(b, f)
	}
	if limit < len(denials) {
		writeRest(b, denials[limit:])
	}
	if together {
		fmt.Fprintf(b, "\nTo copy to the mirrors what they lack: %s\n", sync)
	}
	if j.Counts.Pending > 0 {
		fmt.Fprintf(b, "\n%s of %s looked up when time was up; the others follow. Apply again in 10 s.\n",
			text.Number(j.Counts.Rerouted-j.Counts.Pending), text.Number(j.Counts.Rerouted))
	}
}

// writeWarnings gives every warning in full.
func (j Judgement) writeWarnings(b *strings.Builder) {
	for i, f := range j.withSeverity(Warn) {
		if i == 0 {
			fmt.Fprintf(b, "\nWarnings:\n")
		}
		fmt.Fprintf(b, "\n%d. ", i+1)
		writeFinding(b, f)
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

func writeLines(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", line)
	}
}

// Report gives f in full, as Verdict.Report does.
func (f Finding) Report() string {
	var b strings.Builder
	writeFinding(&b, f)
	return b.String()
}

func writeFinding(b *strings.Builder, f Finding) {
	if f.Image.Ref != "" {
		fmt.Fprintf(b, "%s\n", text.Line(f.Image.Ref))
	} else {
		fmt.Fprintf(b, "the configuration as a whole\n")
	}
	if consumers := f.Image.ConsumerNames(maxConsumers); consumers != "" {
		fmt.Fprintf(b, "   used by %s\n", consumers)
	}
	fmt.Fprintf(b, "   %s: %s\n", f.Rule, text.Line(f.Reason))
	for _, line := range f.Detail {
		fmt.Fprintf(b, "   - %s\n", text.Line(line))
	}
	if line := exemptLine(f); line != "" {
		fmt.Fprintf(b, "   - %s\n", line)
	}
	for _, line := range f.Remedy {
		fmt.Fprintf(b, "   To do: %s\n", text.Lines(line))
	}
}

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

// writeRest counts the remaining findings by rule and namespace.
func writeRest(b *strings.Builder, rest []Finding) {
	fmt.Fprintf(b, "\nAnd %s more:\n", text.Number(len(rest)))
	var lines []string
	for _, g := range groupByRule(rest) {
		of := text.Line(g.reason)
		if !g.whole {
			of = fmt.Sprintf("%s (%s)", text.Count(len(g.findings), "image"), namespaces(g.findings, maxConsumers))
		}
		lines = append(lines, g.rule+": "+of)
	}
	writeLines(b, text.First(lines, maxGroups, "rule"))
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
