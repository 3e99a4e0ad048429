package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Refusal explains to the person who asked for the change why subject ("ImageTagMirrorSet apps") is denied, or would be
// in mode enforce: the faults, the images and their users, what was looked up and what to do. It gives the worst findings
// in full and counts the others. It is "" if the rules admit the change.
func Refusal(v policy.Verdict, subject string) string {
	if v.Allowed && !Waived(v) {
		return ""
	}
	a := short(v.Judgement, Summary(v, subject), command(v, "sync"))
	a.Add(blockedBy(v))
	if !v.Allowed {
		a.Add(answer.Paragraphf("Nothing was changed. For the full list: %s", command(v, "check")))
	}
	return strings.TrimSuffix(a.String(), "\n")
}

// command returns a command of the program that is about the same change.
func command(v policy.Verdict, name string) string {
	if v.Deletes {
		return "mirrorset-guard " + name + " -f FILE --delete"
	}
	return "mirrorset-guard " + name + " -f FILE"
}

// Answer returns the verdict as an answer with every finding, warnings included.
func Answer(v policy.Verdict, subject string) *answer.Answer {
	title := "What to know"
	if len(v.WithSeverity(policy.Deny)) > 0 {
		title = "What will break, and for whom"
	}
	a := full(v.Judgement, subject, Summary(v, subject), command(v, "sync"), title)
	a.Verdict, a.Tone = "Admitted", answer.Good
	switch {
	case !v.Allowed:
		a.Verdict, a.Tone = "Denied", answer.Bad
	case Waived(v):
		a.Verdict, a.Tone = "Admitted only because of the mode", answer.Caution
	case len(v.WithSeverity(policy.Warn)) > 0:
		a.Verdict, a.Tone = "Admitted with warnings", answer.Caution
	}
	a.Add(blockedBy(v))
	if atOnce := v.Counts.AtOnce(); atOnce != "" {
		a.Add(answer.Paragraphf("At once: %s.", atOnce))
	}
	return a
}

// Summary gives the verdict in a sentence.
func Summary(v policy.Verdict, subject string) string {
	subject = text.Line(subject)
	denials := v.WithSeverity(policy.Deny)
	switch {
	case !v.Allowed && len(denials) == 0: // the zero Verdict, which was never decided
		return subject + " is refused because there is no verdict."
	case !v.Allowed:
		return headline(v.Judgement, subject+" is refused", lost(v, denials))
	case Waived(v):
		return headline(v.Judgement, fmt.Sprintf("%s is admitted in mode %s, and would be refused in mode enforce", subject, v.Mode), lost(v, denials))
	case v.Unjudged:
		return fmt.Sprintf("%s is admitted: %s.", subject, unjudged(v))
	default:
		return fmt.Sprintf("%s is admitted: it %s %s of %s, %s%s.",
			subject, does(v), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), verified(v), policy.MovedCounts{All: v.Counts.Moved, Lost: v.Counts.MovedLost, Open: v.Counts.MovedOpen, Assumed: v.Counts.MovedAssumed})
	}
}

// blockedBy says which setting would let the change pass; nothing if a protected namespace or the cluster itself blocks it.
func blockedBy(v policy.Verdict) answer.Paragraph {
	switch n := len(v.BlockedBy); n {
	case 0:
		return nil
	case 1:
		ns := v.BlockedBy[0]
		return answer.Paragraphf("Only images in namespace %s block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: %s, severity: warn}.", ns, ns)
	default:
		return answer.Paragraphf("Only images in namespaces %s block this; if one of them should not, set namespaceSeverities in the guard's configuration: {namespace: NAMESPACE, severity: warn}.",
			text.Names(v.BlockedBy, policy.MaxConsumers))
	}
}

// lost says how many images denials are about. Images that no node can parse do not count as
// rerouted.
func lost(v policy.Verdict, denials []policy.Finding) string {
	rerouted, moved, malformed := map[string]bool{}, map[string]bool{}, 0
	for _, f := range denials {
		switch {
		case f.Image.Ref == "":
		case f.Rule == policy.MalformedReference:
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
		return lostOf(v, rerouted) + "; it drains nodes, and " + again
	case len(rerouted) == 0:
		return unparsed(malformed)
	default:
		return lostOf(v, rerouted)
	}
}

func lostOf(v policy.Verdict, rerouted map[string]bool) string {
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
func does(v policy.Verdict) string {
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
func doesNone(v policy.Verdict) string {
	switch all := v.Counts.Total; {
	case v.OnlyPins:
		return "pins no image that is new to a pool"
	case all == 0:
		return does(v) + " nothing because no image is known to be in use"
	case all == 1 && v.OnlySignatures:
		return "does not change the signature policy of the one image in use"
	case all == 1:
		return "does not reroute the one image in use"
	default:
		return fmt.Sprintf("%s none of the %s in use", does(v), text.Count(all, "image"))
	}
}

// moved says how many of the images that a change does not reroute were verified.
func moved(v policy.Verdict) string {
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
func unjudged(v policy.Verdict) string {
	return fmt.Sprintf("which of %s it reroutes is not known, and nothing was verified", text.Count(v.Counts.Total, "image"))
}

func verified(v policy.Verdict) string {
	if v.OnlySignatures && v.RequiresNone && v.Counts.Rerouted > 0 && v.Counts.Rerouted == v.Counts.Verified {
		return "requires no signature of any"
	}
	return verifiedOf(v.Judgement)
}

// Warnings returns the warnings that go with the answer about subject, denied or not: a
// summary of what the change does, then a line for each rule that warns, of at most 120 runes
// each.
func Warnings(v policy.Verdict, subject string) []string {
	if v.Mode == policy.ModeAudit {
		return nil
	}
	var warnings []string
	switch {
	case !v.Allowed:
	case Waived(v):
		warnings = waivedWarnings(v, subject)
	case v.Unjudged:
		warnings = append(warnings, cut(subject+": "+unjudged(v)))
	case v.Counts.Rerouted > 0:
		warnings = append(warnings, cut(fmt.Sprintf("%s %s %s of %s: %s",
			subject, does(v), text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), verified(v))))
	case v.Brings: // silence would read as if something had been verified
		warnings = append(warnings, cut(fmt.Sprintf("%s %s%s", subject, doesNone(v), moved(v))))
	}
	if atOnce := v.Counts.AtOnce(); atOnce != "" && v.Allowed {
		warnings = append(warnings, cut("At once: "+atOnce))
	}
	for _, name := range Exemptions(v) { // with every finding that it changed, counted by rule
		of := policy.Only(v.Findings, func(f *policy.Finding) bool { return slices.Contains(f.Exemptions, name) })
		for _, g := range groupByRule(of) {
			warnings = append(warnings, cut(fmt.Sprintf("Exemption %s admits what would be denied: %s", name, warning(g))))
		}
	}
	for _, g := range groupByRule(policy.Only(v.Findings, func(f *policy.Finding) bool { return f.Severity == policy.Warn && len(f.Exemptions) == 0 })) {
		warnings = append(warnings, warning(g))
	}
	return warnings
}

// Waived reports whether v admits a change that mode enforce would refuse.
func Waived(v policy.Verdict) bool { return v.Allowed && len(v.WithSeverity(policy.Deny)) > 0 }

// waivedWarnings say what mode enforce would have denied, in the words of a denial.
func waivedWarnings(v policy.Verdict, subject string) []string {
	denials := v.WithSeverity(policy.Deny)
	why := lost(v, denials)
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
func Exemptions(v policy.Verdict) []string {
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

// StandingAnswer returns the verdict as an answer with every finding, warnings included.
func StandingAnswer(v policy.StandingVerdict, subject string) *answer.Answer {
	a := full(v.Judgement, subject, StandingSummary(v, subject), "mirrorset-guard sync", "What is wrong")
	switch {
	case v.HasFaults() || fail(v) > 0:
		a.Verdict, a.Tone = "Faults", answer.Bad
	case v.Counts.Rerouted == 0:
		a.Verdict = "Nothing to verify"
	case v.Counts.Verified < v.Counts.Rerouted:
		a.Verdict, a.Tone = "Not all determined", answer.Unknown
	default:
		a.Verdict, a.Tone = "No faults", answer.Good
	}
	return a
}

// StandingSummary gives the verdict in a sentence.
func StandingSummary(v policy.StandingVerdict, subject string) string {
	subject = text.Line(subject)
	if v.HasFaults() {
		return headline(v.Judgement, subject+" has faults", standingLost(v))
	}
	return fmt.Sprintf("%s reroutes %s of %s: %s.", subject, text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), served(v))
}

// standingLost says how many images denials are about.
func standingLost(v policy.StandingVerdict) string {
	lost, malformed := map[string]bool{}, 0
	for _, f := range v.WithSeverity(policy.Deny) {
		switch {
		case f.Image.Ref == "":
		case f.Rule == policy.MalformedReference:
			malformed++
		default:
			lost[f.Image.Ref] = true
		}
	}
	if len(lost) == 0 {
		return unparsed(malformed)
	}
	return outOf(len(lost), v.Counts.Rerouted) + " it reroutes could not be pulled safely"
}

// fail counts the images that are not there as nodes need them.
func fail(v policy.StandingVerdict) int {
	return len(slices.DeleteFunc(slices.Clone(v.Results), func(r policy.Result) bool { return r != policy.ResultFails && r != policy.ResultFailsAlready }))
}

// served counts the images that nodes verifiably get, and the others by their faults.
func served(v policy.StandingVerdict) string {
	served := verifiedOf(v.Judgement)
	if fail := fail(v); fail > 0 {
		served += ", " + text.Number(fail) + " not there as nodes need it"
	}
	if v.Counts.Unverified > 0 {
		served += fmt.Sprintf(", %s that could not be looked up", text.Number(v.Counts.Unverified))
	}
	return served
}
