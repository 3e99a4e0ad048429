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

// Message explains to the person who asked for the change why subject ("ImageTagMirrorSet
// apps") is denied: the faults, the images and their users, what was looked up and what to do. It gives
// the worst findings in full and counts the others. It is "" for an admission.
func (v Verdict) Message(subject string) string {
	if v.Allowed {
		return ""
	}
	var b strings.Builder
	v.writeDenial(&b, text.Line(subject), maxDetailed)
	b.WriteString("\nNothing was changed. For the full list: " + v.command("check"))
	return b.String()
}

// command returns a command of the program that is about the same change.
func (v Verdict) command(name string) string {
	switch {
	case v.Standing:
		return "mirrorset-guard " + name
	case v.Deletes:
		return "mirrorset-guard " + name + " -f FILE --delete"
	}
	return "mirrorset-guard " + name + " -f FILE"
}

// Report gives every finding, warnings included, in the words of Message and
// Warnings.
func (v Verdict) Report(subject string) string {
	var b strings.Builder
	v.writeAnswer(&b, text.Line(subject), len(v.Findings))
	if atOnce := v.Counts.AtOnce(); atOnce != "" {
		fmt.Fprintf(&b, "\nAt once: %s.\n", atOnce)
	}
	if warned := v.withSeverity(Warn); len(warned) > 0 {
		fmt.Fprintf(&b, "\nWarnings:\n")
		for i, f := range warned {
			fmt.Fprintf(&b, "\n%d. ", i+1)
			writeFinding(&b, f)
		}
	}
	return b.String()
}

// Summary gives the verdict in the sentence that Report begins with.
func (v Verdict) Summary(subject string) string {
	var b strings.Builder
	v.writeAnswer(&b, text.Line(subject), 0)
	sentence, _, _ := strings.Cut(b.String(), "\n")
	return sentence
}

func (v Verdict) writeAnswer(b *strings.Builder, subject string, limit int) {
	switch {
	case !v.Allowed, v.Waived():
		v.writeDenial(b, subject, limit)
	case v.Unjudged:
		fmt.Fprintf(b, "%s is admitted: %s.\n", subject, v.unjudged())
	case v.Standing:
		fmt.Fprintf(b, "%s %s %s of %s: %s.\n", subject, v.does(), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.served())
	default:
		fmt.Fprintf(b, "%s is admitted: it %s %s of %s, %s%s.\n",
			subject, v.does(), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.verified(), MovedCounts{v.Counts.Moved, v.Counts.MovedLost, v.Counts.MovedOpen, v.Counts.MovedAssumed})
	}
}

func (v Verdict) writeDenial(b *strings.Builder, subject string, limit int) {
	denials := v.withSeverity(Deny)
	whole := ofConfiguration(denials)
	if len(denials) == 0 { // the zero Verdict, which was never decided
		fmt.Fprintf(b, "%s is refused because there is no verdict.\n", subject)
		return
	}
	if len(whole) == len(denials) {
		v.writeInvalid(b, subject, whole)
		return
	}
	fmt.Fprintf(b, "%s %s: %s.\n", subject, v.answer(), v.lost(denials))
	copyAll := v.copyAll(denials)
	for i, f := range denials[:min(limit, len(denials))] {
		fmt.Fprintf(b, "\n%d. ", i+1)
		if limit == maxDetailed {
			f.Detail = text.First(f.Detail, maxPlaces, "place")
		}
		if copyAll != "" {
			f = f.withoutCopy()
		}
		writeFinding(b, f)
	}
	if limit < len(denials) {
		writeRest(b, denials[limit:])
	}
	if copyAll != "" {
		fmt.Fprintf(b, "\nTo copy to the mirrors what they lack: %s\n", copyAll)
	}
	v.writeProgress(b)
	v.writeBlockedBy(b)
}

// writeBlockedBy says which setting would let the change pass, if neither a protected namespace
// nor the cluster itself blocks it.
func (v Verdict) writeBlockedBy(b *strings.Builder) {
	switch n := len(v.BlockedBy); {
	case n == 1:
		ns := v.BlockedBy[0]
		fmt.Fprintf(b, "\nOnly images in namespace %s block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: %s, severity: warn}.\n", ns, ns)
	case n > 1:
		fmt.Fprintf(b, "\nOnly images in namespaces %s block this; if one of them should not, set namespaceSeverities in the guard's configuration: {namespace: NAMESPACE, severity: warn}.\n",
			text.Names(v.BlockedBy, maxConsumers))
	}
}

// lost says how many images denials are about. Images that no node can parse do not count as
// rerouted.
func (v Verdict) lost(denials []Finding) string {
	rerouted, moved, malformed := map[string]bool{}, map[string]bool{}, 0
	for _, f := range denials {
		switch {
		case f.Image.Ref == "":
		case f.Rule == MalformedReference:
			malformed++
		case f.Moved:
			moved[f.Image.Ref] = true
		default:
			rerouted[f.Image.Ref] = true // the forecast may object to one that is denied already
		}
	}
	switch again := text.Plural(len(moved), "image that it leaves on its route", "images that it leaves on their routes") + " could not be pulled again"; {
	case len(rerouted) == 0 && len(moved) > 0:
		return "it drains nodes, and " + again
	case len(moved) > 0:
		return v.lostOf(rerouted) + "; it drains nodes, and " + again
	case len(rerouted) == 0:
		return text.Plural(malformed, "reference", "references") + " could not be parsed by any node"
	default:
		return v.lostOf(rerouted)
	}
}

// served counts the images in force that nodes verifiably get, and the others by their faults.
func (v Verdict) served() string {
	served, fail := v.verified(), 0
	for _, r := range v.Results {
		if r == ResultFails || r == ResultFailsAlready {
			fail++
		}
	}
	if fail > 0 {
		served += ", " + text.Number(fail) + " not there as nodes need it"
	}
	if v.Counts.Unverified > 0 {
		served += fmt.Sprintf(", %s that could not be looked up", text.Number(v.Counts.Unverified))
	}
	return served
}

func (v Verdict) lostOf(rerouted map[string]bool) string {
	which := "it reroutes"
	switch {
	case v.OnlySignatures:
		which = "whose signature policy it changes"
	case v.OnlyPins:
		which = "that it pins"
	}
	which = outOf(len(rerouted), v.Counts.Rerouted) + " " + which
	if v.Standing {
		return which + " could not be pulled safely"
	}
	return which + " could not be pulled safely afterwards"
}

// does is what a change does to images, before their number.
func (v Verdict) does() string {
	switch {
	case v.OnlySignatures:
		return "changes the signature policy of"
	case v.OnlyPins:
		return "pins"
	default:
		return "reroutes"
	}
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

// doesNone says that a change concerns no image.
func (v Verdict) doesNone() string {
	switch all := v.Counts.Total; {
	case v.OnlyPins:
		return "pins no image that is new to a pool"
	case all == 0 && v.OnlySignatures:
		return "changes the signature policy of nothing because no image is known to be in use"
	case all == 0:
		return "reroutes nothing because no image is known to be in use"
	case all == 1 && v.OnlySignatures:
		return "does not change the signature policy of the one image in use"
	case all == 1:
		return "does not reroute the one image in use"
	default:
		return fmt.Sprintf("%s none of the %s in use", v.does(), text.Count(all, "image"))
	}
}

// moved says what was verified of the images that a change does not reroute.
func (v Verdict) moved() string {
	c := v.Counts
	switch verified := c.Moved - c.MovedLost - c.MovedOpen - c.MovedAssumed; {
	case c.Moved == 0:
		return ": nothing was verified"
	case verified == c.Moved && !v.Partial:
		return fmt.Sprintf("; %s that drains move: all verified", text.Count(c.Moved, "image"))
	default:
		return fmt.Sprintf("; %s that drains move: %s verified", text.Count(c.Moved, "image"), text.Number(verified))
	}
}

// unjudged says that it is not known which images are rerouted.
func (v Verdict) unjudged() string {
	return fmt.Sprintf("which of %s it reroutes is not known, and nothing was verified", text.Count(v.Counts.Total, "image"))
}

// withSeverity returns the findings of one severity, in order. They must not be changed.
func (v Verdict) withSeverity(s Severity) []Finding {
	return only(v.Findings, func(f *Finding) bool { return f.Severity == s })
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

func (v Verdict) writeInvalid(b *strings.Builder, subject string, findings []Finding) {
	fmt.Fprintf(b, "%s %s: %s.\n", subject, v.answer(), text.Line(findings[0].Reason))
	lines := convert.Each(findings, func(f Finding) string { return f.Rule + ": " + text.Line(strings.Join(f.Detail, "; ")) })
	writeLines(b, text.First(lines, maxReasonList, ""))
	fmt.Fprintf(b, "To do: %s.\n", findings[0].Remedy[0])
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

func (v Verdict) writeProgress(b *strings.Builder) {
	if v.Counts.Pending == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s of %s looked up when time was up; the others follow. Apply again in 10 s.\n",
		text.Number(v.Counts.Rerouted-v.Counts.Pending), text.Number(v.Counts.Rerouted))
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

// Warnings returns the warnings that go with the answer about subject, denied or not: a
// summary of what the change does, then a line for each rule that warns, of at most 120 runes
// each.
func (v Verdict) Warnings(subject string) []string {
	if v.Mode == ModeAudit {
		return nil
	}
	var warnings []string
	switch {
	case !v.Allowed:
	case v.Waived():
		warnings = v.waivedWarnings(subject)
	case v.Unjudged:
		warnings = append(warnings, cut(subject+": "+v.unjudged()))
	case v.Counts.Rerouted > 0:
		warnings = append(warnings, cut(fmt.Sprintf("%s %s %s of %s: %s",
			subject, v.does(), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.verified())))
	case v.Brings: // silence would read as if something had been verified
		warnings = append(warnings, cut(fmt.Sprintf("%s %s%s", subject, v.doesNone(), v.moved())))
	}
	if atOnce := v.Counts.AtOnce(); atOnce != "" && v.Allowed {
		warnings = append(warnings, cut("At once: "+atOnce))
	}
	warnings = append(warnings, v.exemptionWarnings()...)
	for _, g := range groupByRule(v.notExempt(Warn)) {
		warnings = append(warnings, warning(g))
	}
	return warnings
}

func (v Verdict) verified() string {
	switch {
	case v.Counts.Rerouted == 0:
		return "so there was nothing to verify"
	case v.OnlySignatures && v.RequiresNone && v.Counts.Rerouted == v.Counts.Verified:
		return "requires no signature of any"
	case v.Partial: // there may be others
	case v.Counts.Rerouted == v.Counts.Verified:
		return "all verified"
	case v.Counts.Rerouted == v.Counts.Assumed:
		return "all assumed"
	}
	return v.Counts.AssumedToo() + text.Number(v.Counts.Verified) + " verified"
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
