package answer

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// The elements of JUnit's XML that pipelines read (https://github.com/testmoapp/junitxml).
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the cases as a JUnit test suite: what is found is the text of a failure, or else output. The notes are output of the first.
func (a *Answer) JUnit() (string, error) {
	suite := junitSuite{Name: text.Line("mirrorset-guard: " + a.Subject), Time: fmt.Sprintf("%.3f", a.Took.Seconds())}
	for c := range a.Cases {
		written := junitCase{Class: c.Class, Name: text.Line(c.Name)}
		said := c.said()
		if c.Failed != "" {
			suite.Failures++
			written.Failure, said = &junitFailure{Type: c.Failed, Message: text.Line(c.Message), Text: said}, ""
		}
		if suite.Tests == 0 {
			for _, note := range a.Notes {
				said += "Note: " + text.Line(note) + "\n"
			}
		}
		suite.Tests++
		written.Output = said
		suite.Cases = append(suite.Cases, written)
	}
	data, err := xml.MarshalIndent(suite, "", "  ")
	return xml.Header + string(data) + "\n", err
}

// said is the text of a case.
func (c *Case) said() string {
	var b strings.Builder
	for _, line := range c.Lines {
		b.WriteString(text.Line(line) + "\n")
	}
	for _, f := range c.Findings {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}
