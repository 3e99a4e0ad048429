package review

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// The elements of JUnit's XML that pipelines read
// (https://github.com/testmoapp/junitxml).
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes r as a JUnit test suite: a case for each rerouted image, for the
// configuration as a whole, and for the rollout if there is a forecast of it; a denial is a
// failure, a warning is output, and so is what the mode admits.
func (r Record) WriteJUnit(w io.Writer) error {
	found := map[string][]policy.Finding{}
	var ofRollout []policy.Finding
	for _, f := range r.Verdict.Findings {
		if policy.IsForecastRule(f.Rule) {
			ofRollout = append(ofRollout, f)
			continue
		}
		found[f.Image.Ref] = append(found[f.Image.Ref], f)
	}
	waived := r.Verdict.Waived()
	whole := CaseOf("configuration", "the merged configuration", found[""], waived)
	for _, note := range r.Notes {
		whole.Output += "Note: " + text.Line(note) + "\n"
	}
	cases := []TestCase{whole}
	if r.Forecast != nil {
		c := CaseOf("rollout", "the rollout", ofRollout, waived)
		c.Output = "Forecast: it " + text.Line(r.Forecast.String()) + ".\n" + c.Output
		cases = append(cases, c)
	}
	_, evidence := r.Judged().assumed()
	for i, reroute := range r.Plan.Reroutes {
		if i > 0 && reroute.Image.Ref == r.Plan.Reroutes[i-1].Image.Ref {
			continue // the same image on the nodes of other pools
		}
		c := CaseOf("image", reroute.Image.Ref, found[reroute.Image.Ref], waived)
		if why := evidence[reroute.Image.Ref]; why != "" {
			c.Output += "Assumed: " + text.Line(why) + "\n"
		}
		cases = append(cases, c)
	}
	return WriteTestCases(w, "mirrorset-guard: "+r.Subject, r.Took, cases)
}

// A TestCase is one of a suite that is written by WriteTestCases.
type TestCase struct {
	Class, Name string
	// Failed is the kind of failure, "" for none; Message and Text explain it.
	Failed, Message, Text string
	Output                string
}

// WriteTestCases writes a JUnit test suite.
func WriteTestCases(w io.Writer, name string, took time.Duration, cases []TestCase) error {
	suite := junitSuite{Name: text.Line(name), Time: fmt.Sprintf("%.3f", took.Seconds()), Tests: len(cases)}
	for _, c := range cases {
		written := junitCase{Class: c.Class, Name: text.Line(c.Name), Output: text.Lines(c.Output)}
		if c.Failed != "" {
			suite.Failures++
			written.Failure = &junitFailure{Type: c.Failed, Message: text.Line(c.Message), Text: text.Lines(c.Text)}
		}
		suite.Cases = append(suite.Cases, written)
	}
	return suite.write(w)
}

func (s *junitSuite) write(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// CaseOf returns the test case of something with findings: a denial fails it, unless the mode admits it (waived); everything
// else is output.
func CaseOf(class, name string, findings []policy.Finding, waived bool) TestCase {
	c := TestCase{Class: class, Name: name}
	for _, f := range findings {
		lines := text.Lines(strings.Join(append(append([]string{}, f.Detail...), f.Remedy...), "\n"))
		if f.Severity == policy.Deny && !waived {
			c.Failed, c.Message, c.Text = f.Rule, f.Reason, lines
		} else {
			c.Output += f.Rule + ": " + text.Line(f.Reason) + "\n" + lines + "\n"
		}
	}
	return c
}
