package page

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Report holds the knowledge of a guard that runs.
type Report struct {
	// Standing is a standing verification.
	Standing v1alpha1.Review
	// Rollout is the progress of rollouts; nil if it is not known.
	Rollout *v1alpha1.RolloutStatus
	// Release is the release that the cluster is to be updated to; nil if none is looked after.
	Release *v1alpha1.NextRelease
	// Decisions are the last ones, the latest first.
	Decisions []auditv1alpha1.Decision
}

// WriteReport writes what a guard that runs knows as a page.
func WriteReport(w io.Writer, doc Report, c Context) error {
	doc = cleaned(doc)
	images := imagesOf(&doc.Standing)
	l := layout{Title: "The mirror configuration in force", Context: c, Asked: true, Basis: basisOf(&doc.Standing)}
	l.Badge, l.Kind, l.Sentence = standingOutcome(&doc.Standing, images)
	l.addReview(&doc.Standing, images, true)
	l.addNext(doc.Release)
	if doc.Rollout != nil {
		_, _, sentence := statusOutcome(doc.Rollout)
		l.add(section{ID: "pools", Title: "Rollouts", Lead: sentence}, pools(doc.Rollout)...)
	}
	rows := make([]row, len(doc.Decisions))
	for i := range doc.Decisions {
		rows[i] = decisionRow(&doc.Decisions[i])
	}
	l.add(section{ID: "decisions", Title: "Last decisions", Lead: "Those of this replica since it started."}, tableOf(table{Caption: "The latest first"}, rows, "Time", "Verdict", "Change", "User", "Reason"))
	return l.write(w)
}

// standingOutcome is what a standing verification has found: badge, kind and sentence.
func standingOutcome(doc *v1alpha1.Review, images []image) (badge, kind, sentence string) {
	lost, open := 0, 0
	for _, i := range images {
		lost += order(strings.HasPrefix(results[i.result].name, "fails"))
		open += order(results[i.result].name == "unverified")
	}
	covered := text.Count(len(images), "image")
	for _, f := range doc.Findings {
		if f.Rule == "RejectedByMCO" {
			return "Stuck", "bad", "The Machine Config Operator rejects the objects in force, and applies no mirror change: " + f.Reason + "."
		}
	}
	switch {
	case len(images) == 0:
		return "Nothing to verify", "note", "The mirror objects in force cover no image in use."
	case lost > 0:
		return "Images are missing", "bad", fmt.Sprintf("Nodes could not pull %s of %s that mirror objects cover.", text.Number(lost), covered)
	case open > 0:
		return "Not all determined", "unknown", fmt.Sprintf("Of %s that mirror objects cover, it could not be determined of %s whether nodes get them.", covered, text.Number(open))
	default:
		return "Verified", "good", fmt.Sprintf("Nodes get all of %s that mirror objects cover.", covered)
	}
}

// maxOpen is how many images of the next release have a line.
const maxOpen = 20

// nextWords has the words by which the command release finds the marked release.
var nextWords = map[string]string{"desired": "desired", "recommended": "next"}

// addNext adds the release that the cluster is to be updated to, in brief.
func (l *layout) addNext(n *v1alpha1.NextRelease) {
	if n == nil {
		return
	}
	s := section{ID: "release", Title: "The next release", Note: strings.ToLower(n.Verdict)}
	var judged []string
	if n.Judged != nil {
		judged = []string{"Judged at " + utc(*n.Judged) + "."}
	}
	if n.Review == nil {
		said := "No release is judged: " + n.Reason + "."
		if n.Marked != "" {
			said = strings.TrimSpace("Release "+n.Version) + " (" + n.Marked + ") could not be judged: " + n.Reason + "."
		}
		l.add(s, listOf("", "", append([]string{said}, judged...)))
		return
	}
	s.Lead = releaseSentence(n.Review)
	open := slices.DeleteFunc(releaseImages(n.Review), func(i releaseImage) bool { return i.State == "READY" })
	slices.SortStableFunc(open, func(a, b releaseImage) int { return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind]) })
	var lines []line
	for _, img := range open[:min(len(open), maxOpen)] {
		said := []string{img.Name + " " + text.ShortDigest(img.Image)}
		for _, f := range img.Findings {
			said = append(said, f.Reason)
		}
		if len(img.Findings) == 0 {
			said = append(said, why(img.ReleaseImage))
		}
		lines = append(lines, line{img.Kind, strings.Join(said, ": ")})
	}
	if more := len(open) - len(lines); more > 0 {
		lines = append(lines, line{"", "and " + text.Count(more, "more image")})
	}
	cards := whole(n.Review)
	cards.rows = slices.DeleteFunc(cards.rows, func(c any) bool { return c.(*card).Kind == "good" })
	l.add(s, cards, partOf("list", "", lines), listOf("", "", judged), commands("mirrorset-guard release "+nextWords[n.Marked]+" -o html=release.html"))
}

// maxReason is how much of a reason a row shows, in characters.
const maxReason = 300

// decisionKinds has the kind of each verdict that is not merely a remark.
var decisionKinds = map[string]string{"allowed": "good", "denied": "bad", "none": "unknown", "waived": "warn", "overridden": "warn", "malformed": "unknown"}

// decisionRow returns a decision in a line: when, verdict, what, user and reason.
func decisionRow(d *auditv1alpha1.Decision) row {
	r := cells(utc(d.Time), d.Verdict, decided(d), d.User.Name, text.Cut(text.ShortDigests(d.Reason), maxReason))
	r.Cells[0].Link = "?change=" + url.QueryEscape(d.UID)
	r.Cells[1].Kind = cmp.Or(decisionKinds[d.Verdict], "note")
	return r
}

// decided says what a decision is about.
func decided(d *auditv1alpha1.Decision) string {
	what := d.Operation + " " + d.Object.Kind + " " + d.Object.Name
	if d.DryRun {
		what += " (dry run)"
	}
	if d.SenderNotKnown {
		what += " (sender not known)"
	}
	return what
}

// WriteDecision writes a recorded decision as a page.
func WriteDecision(w io.Writer, d auditv1alpha1.Decision, c Context) error {
	d = cleaned(d)
	c.Time, c.Requester = d.Time, d.User.Name
	if len(d.User.Groups) > 0 {
		c.Requester += " (" + text.Names(d.User.Groups, maxConsumers) + ")"
	}
	l := layout{Title: d.Verdict + ": " + decided(&d), Badge: d.Verdict, Kind: cmp.Or(decisionKinds[d.Verdict], "note"), Sentence: decided(&d), Context: c}
	l.Basis = []basis{{"Mode", d.Mode}, {"Request", d.UID}, {"Replica", d.Guard.Replica}, {"Time taken", fmt.Sprintf("%.2g s", d.Seconds)}}
	notes := d.Notes
	if d.FindingsOmitted > 0 {
		notes = append(notes, text.Count(d.FindingsOmitted, "finding")+" are left out of the record.")
	}
	if d.Reason != "" {
		l.add(section{ID: "answer", Title: "The answer"}, listOf("", "", []string{d.Reason}))
	}
	l.addFindings(d.Findings, false, findingsRoom)
	if d.Forecast != "" {
		l.add(section{ID: "forecast", Title: "The rollout"}, listOf("", "", []string{"It " + d.Forecast + "."}))
	}
	l.add(section{ID: "notes", Title: "Notes"}, listOf("", "", notes))
	return l.write(w)
}
