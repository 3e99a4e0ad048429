package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Message explains to the person who asked for the change why subject ("ImageTagMirrorSet
// apps") is denied: the faults, the images and their users, what was looked up and what to do. It gives
// the worst findings in full and counts the others. It is "" for an admission.
func (v Verdict) Message(subject string) string {
	if v.Allowed {
		return ""
	}
	denial := v.denial(subject)
	denial.Add(answer.Paragraphf("Nothing was changed. For the full list: %s", v.command("check")))
	return strings.TrimSuffix(denial.String(), "\n")
}

// command returns a command of the program that is about the same change.
func (v Verdict) command(name string) string {
	if v.Deletes {
		return "mirrorset-guard " + name + " -f FILE --delete"
	}
	return "mirrorset-guard " + name + " -f FILE"
}

// Answer returns the verdict as an answer with every finding, warnings included.
func (v Verdict) Answer(subject string) *answer.Answer {
	title := "What to know"
	if len(v.withSeverity(Deny)) > 0 {
		title = "What will break, and for whom"
	}
	a := v.full(subject, v.Summary(subject), v.command("sync"), title)
	a.Verdict, a.Tone = "Admitted", answer.Good
	switch {
	case !v.Allowed:
		a.Verdict, a.Tone = "Denied", answer.Bad
	case v.Waived():
		a.Verdict, a.Tone = "Admitted only because of the mode", answer.Caution
	case len(v.withSeverity(Warn)) > 0:
		a.Verdict, a.Tone = "Admitted with warnings", answer.Caution
	}
	a.Add(v.blockedBy())
	if atOnce := v.Counts.AtOnce(); atOnce != "" {
		a.Add(answer.Paragraphf("At once: %s.", atOnce))
	}
	return a
}

// Summary gives the verdict in a sentence.
func (v Verdict) Summary(subject string) string {
	subject = text.Line(subject)
	denials := v.withSeverity(Deny)
	switch {
	case !v.Allowed && len(denials) == 0: // the zero Verdict, which was never decided
		return subject + " is refused because there is no verdict."
	case !v.Allowed:
		return v.headline(subject+" is refused", v.lost(denials))
	case v.Waived():
		return v.headline(fmt.Sprintf("%s is admitted in mode %s, and would be refused in mode enforce", subject, v.Mode), v.lost(denials))
	case v.Unjudged:
		return fmt.Sprintf("%s is admitted: %s.", subject, v.unjudged())
	default:
		return fmt.Sprintf("%s is admitted: it %s %s of %s, %s%s.",
			subject, v.does(), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.verified(), MovedCounts{v.Counts.Moved, v.Counts.MovedLost, v.Counts.MovedOpen, v.Counts.MovedAssumed})
	}
}

// denial returns the denials as an answer, the worst in full.
func (v Verdict) denial(subject string) *answer.Answer {
	a := v.short(v.Summary(subject), v.command("sync"))
	a.Add(v.blockedBy())
	return a
}

// blockedBy says which setting would let the change pass; nothing if a protected namespace or the cluster itself blocks it.
func (v Verdict) blockedBy() answer.Paragraph {
	switch n := len(v.BlockedBy); n {
	case 0:
		return nil
	case 1:
		ns := v.BlockedBy[0]
		return answer.Paragraphf("Only images in namespace %s block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: %s, severity: warn}.", ns, ns)
	default:
		return answer.Paragraphf("Only images in namespaces %s block this; if one of them should not, set namespaceSeverities in the guard's configuration: {namespace: NAMESPACE, severity: warn}.",
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
		return unparsed(malformed)
	default:
		return v.lostOf(rerouted)
	}
}

func (v Verdict) lostOf(rerouted map[string]bool) string {
	which := "it reroutes"
	switch {
	case v.OnlySignatures:
		which = "whose signature policy it changes"
	case v.OnlyPins:
		which = "that it pins"
	}
	return outOf(len(rerouted), v.Counts.Rerouted) + " " + which + " could not be pulled safely afterwards"
}

// does is the effect of a change on images, before their number.
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

// doesNone says that a change concerns no image.
func (v Verdict) doesNone() string {
	switch all := v.Counts.Total; {
	case v.OnlyPins:
		return "pins no image that is new to a pool"
	case all == 0:
		return v.does() + " nothing because no image is known to be in use"
	case all == 1 && v.OnlySignatures:
		return "does not change the signature policy of the one image in use"
	case all == 1:
		return "does not reroute the one image in use"
	default:
		return fmt.Sprintf("%s none of the %s in use", v.does(), text.Count(all, "image"))
	}
}

// moved says how many of the images that a change does not reroute were verified.
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

func (v Verdict) verified() string {
	if v.OnlySignatures && v.RequiresNone && v.Counts.Rerouted > 0 && v.Counts.Rerouted == v.Counts.Verified {
		return "requires no signature of any"
	}
	return v.Judgement.verified()
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
	for _, name := range v.Exemptions() { // with every finding that it changed, counted by rule
		of := only(v.Findings, func(f *Finding) bool { return slices.Contains(f.Exemptions, name) })
		for _, g := range groupByRule(of) {
			warnings = append(warnings, cut(fmt.Sprintf("Exemption %s admits what would be denied: %s", name, warning(g))))
		}
	}
	for _, g := range groupByRule(only(v.Findings, func(f *Finding) bool { return f.Severity == Warn && len(f.Exemptions) == 0 })) {
		warnings = append(warnings, warning(g))
	}
	return warnings
}

// Waived reports whether v admits a change that mode enforce would refuse.
func (v Verdict) Waived() bool { return v.Allowed && len(v.withSeverity(Deny)) > 0 }

// WaivedMessage says why mode enforce would refuse subject, in the words of Message; "" if it
// would not.
func (v Verdict) WaivedMessage(subject string) string {
	if !v.Waived() {
		return ""
	}
	return v.denial(subject).String()
}

// waivedWarnings say what mode enforce would have denied, in the words of a denial.
func (v Verdict) waivedWarnings(subject string) []string {
	denials := v.withSeverity(Deny)
	why := v.lost(denials)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		why = whole[0].Reason
	}
	warnings := []string{cut(fmt.Sprintf("Mode %s: in mode enforce %s would be refused: %s", v.Mode, subject, why))}
	for _, g := range groupByRule(denials) {
		warnings = append(warnings, cut("Would be denied: "+warning(g)))
	}
	return warnings
}

// Exemptions returns, each once, the names of the exemptions that made warnings of denials.
func (v Verdict) Exemptions() []string {
	var names []string
	for _, f := range v.Findings {
		for _, name := range f.Exemptions {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
