// Package sarif writes a review as SARIF 2.1.0, which GitHub, GitLab and editors read: each finding at the
// line of the file that it is about, for a pull request to be annotated there.
//
//	err := sarif.Write(w, record, change, "v0.1.0")
//
// A finding about the configuration stands at its subject; one about an image, at the source that decides
// where nodes pull it from. A finding that no line of the change explains stands where the change begins,
// since a result without a location is not shown.
package sarif

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

const (
	schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	home   = "https://github.com/mirrorset-guard/mirrorset-guard"
	about  = home + "/blob/main/docs/rules.md#"

	// maxResults is as many as GitHub shows of a run; it refuses 25,000.
	maxResults = 5000
	// maxRelated bounds the related locations of a result, and maxMessage its message, in characters.
	maxRelated = 10
	maxMessage = 4000
)

// Write writes r, whose change was read by c; version is that of the program.
func Write(w io.Writer, r review.Record, c Change, version string) error {
	in := newLocator(r, c)
	findings := r.Verdict.Findings
	out := run{
		Tool:       tool{driver{Name: "mirrorset-guard", Version: version, InformationURI: home, Rules: ruleList()}},
		Invocation: []invocation{{ExecutionSuccessful: true}},
		ColumnKind: "unicodeCodePoints",
		Results:    []result{},
		Properties: properties{Subject: text.Line(r.Subject), Allowed: r.Verdict.Allowed},
	}
	for _, f := range findings[:min(len(findings), maxResults)] {
		out.Results = append(out.Results, resultOf(f, words.Waived(r.Verdict), in.locationsOf(f)))
	}
	notes := r.Notes
	if more := len(findings) - maxResults; more > 0 {
		notes = append(notes[:len(notes):len(notes)], fmt.Sprintf("%s left out, the least severe", text.Plural(more, "finding is", "findings are")))
	}
	for _, note := range notes {
		out.Invocation[0].Notifications = append(out.Invocation[0].Notifications, notification{"note", message{plain(note)}})
	}
	data, err := json.MarshalIndent(log{Schema: schema, Version: "2.1.0", Runs: []run{out}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.JSON(data), '\n'))
	return err
}

func ruleList() []descriptor {
	var all []descriptor
	for _, id := range rules.IDs() {
		t := rules.TextOf(id)
		help := fmt.Sprintf("%s.\n\nSeverity: %s. Settings may weaken it: severities in the configuration file.", text.Capital(t.Says), t.Severity)
		all = append(all, descriptor{
			ID: id, Name: id, Short: message{text.Capital(t.Says) + "."}, Help: message{help}, HelpURI: about + strings.ToLower(id),
			Default: configuration{defaultLevel(t.Severity)},
		})
	}
	return all
}

// defaultLevel returns the level of a rule whose severity is text.
func defaultLevel(text string) string {
	if strings.HasPrefix(text, "deny") {
		return "error"
	}
	return "warning"
}

// levelOf returns the level of a finding. A finding that the mode admits is no error.
func levelOf(s policy.Severity, waived bool) string {
	switch {
	case s == policy.Info:
		return "note"
	case s == policy.Deny && !waived:
		return "error"
	default:
		return "warning"
	}
}

func resultOf(f policy.Finding, waived bool, at []location) result {
	sum := sha256.Sum256([]byte(f.Rule + "\x00" + identityOf(f)))
	r := result{
		RuleID: f.Rule, Level: levelOf(f.Severity, waived), Message: message{messageOf(f)},
		Fingerprints: map[string]string{"finding/v1": hex.EncodeToString(sum[:])},
	}
	if len(at) > 0 {
		r.Locations = at[:1]
		for i, l := range at[1:min(len(at), maxRelated+1)] {
			l.ID = i + 1
			r.Related = append(r.Related, l)
		}
	}
	return r
}

// identityOf returns what stays the same of a finding from one review to the next, where the reason may
// count images.
func identityOf(f policy.Finding) string {
	switch s := f.Statement; {
	case f.Image.Ref != "":
		return f.Image.Ref
	case s != nil:
		return s.Scope + "\x00" + strings.Join(s.Objects, "\x00")
	default:
		return f.Reason
	}
}

// messageOf says what is wrong, with what, and what to do.
func messageOf(f policy.Finding) string {
	told := words.OfFinding(f)
	first := strings.TrimPrefix(told.Subject+": "+told.Reason, ": ")
	told.Reason = "" // which comes first
	return plain(text.Line(first) + ".\n" + told.String())
}

// plain returns s as the text of a message, in which brackets make links and a backslash takes that
// meaning from them.
func plain(s string) string {
	return links.Replace(text.Cut(text.Lines(s), maxMessage))
}

var links = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)
