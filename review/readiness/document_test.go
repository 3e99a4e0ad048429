package readiness

import (
	"strings"
	"testing"
)

// TestJUnitProblems: of the problems of a release as a whole, the worst is its state, wherever it is among them.
func TestJUnitProblems(t *testing.T) {
	known, open := Problem{State: NotReady, About: AboutConfiguration, Reason: "it is refused"}, Problem{State: Unknown, About: AboutConfiguration, Reason: "it could not be read"}
	for _, problems := range [][]Problem{{known, open}, {open, known}, {open, known, open}} {
		got, err := (&Readiness{Problems: problems, Signature: Signature{State: Ready}}).Answer().JUnit()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, `<failure type="NOT READY" message="it is refused">`) && !strings.Contains(got, `<failure message="it is refused" type="NOT READY">`) || !strings.Contains(got, "it could not be read") {
			t.Errorf("got %s", got)
		}
	}
}
