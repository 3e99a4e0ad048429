package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Report gives every finding, warnings included.
func (v StandingVerdict) Report(subject string) string {
	var b strings.Builder
	v.writeAnswer(&b, text.Line(subject), len(v.Findings))
	v.writeWarnings(&b)
	return b.String()
}

// Summary gives the verdict in the sentence that Report begins with.
func (v StandingVerdict) Summary(subject string) string {
	var b strings.Builder
	v.writeAnswer(&b, text.Line(subject), 0)
	sentence, _, _ := strings.Cut(b.String(), "\n")
	return sentence
}

func (v StandingVerdict) writeAnswer(b *strings.Builder, subject string, limit int) {
	if v.HasFaults() {
		v.writeFaults(b, subject+" has faults", v.lost(), "mirrorset-guard sync", limit)
		return
	}
	fmt.Fprintf(b, "%s reroutes %s of %s: %s.\n", subject, text.Number(v.Counts.Rerouted), text.Count(v.Counts.Total, "image"), v.served())
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

// served counts the images that nodes verifiably get, and the others by their faults.
func (v StandingVerdict) served() string {
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
