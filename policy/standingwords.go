package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Answer returns the verdict as an answer with every finding, warnings included.
func (v StandingVerdict) Answer(subject string) *answer.Answer {
	a := v.full(subject, v.Summary(subject), "mirrorset-guard sync", "What is wrong")
	switch {
	case v.HasFaults() || v.fail() > 0:
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

// Summary gives the verdict in a sentence.
func (v StandingVerdict) Summary(subject string) string {
	subject = text.Line(subject)
	if v.HasFaults() {
		return v.headline(subject+" has faults", v.lost())
	}
	return fmt.Sprintf("%s reroutes %s of %s: %s.", subject, text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.served())
}

// lost says how many images denials are about.
func (v StandingVerdict) lost() string {
	lost, malformed := map[string]bool{}, 0
	for _, f := range v.withSeverity(Deny) {
		switch {
		case f.Image.Ref == "":
		case f.Rule == MalformedReference:
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
func (v StandingVerdict) fail() int {
	return len(slices.DeleteFunc(slices.Clone(v.Results), func(r Result) bool { return r != ResultFails && r != ResultFailsAlready }))
}

// served counts the images that nodes verifiably get, and the others by their faults.
func (v StandingVerdict) served() string {
	served := v.verified()
	if fail := v.fail(); fail > 0 {
		served += ", " + text.Number(fail) + " not there as nodes need it"
	}
	if v.Counts.Unverified > 0 {
		served += fmt.Sprintf(", %s that could not be looked up", text.Number(v.Counts.Unverified))
	}
	return served
}
