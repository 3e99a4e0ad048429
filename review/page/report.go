package page

import (
	"cmp"
	"fmt"
	"io"
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
	doc.Standing, doc.Rollout, doc.Release = cleaned(doc.Standing), cleaned(doc.Rollout), cleaned(doc.Release)
	r := newReviewPage(doc.Standing, c)
	r.standing = true
	for i := range r.findings {
		r.findings[i].standing = true
	}
	l := layout{Title: "The mirror configuration in force", Context: c, Asked: true, Basis: []basis{{"Mode", r.Mode}, {"Inventory", text.Count(r.Images.Total, "image")}, {"Registries", r.answered()}}}
	l.Badge, l.Kind, l.Sentence = r.standingOutcome()
	all, err := r.sections()
	if err != nil {
		return err
	}
	room := roomBeside(all)
	more, err := sections(doc.releasePart(c), doc.rolloutPart(), decisionsPart(doc.Decisions))
	if err != nil {
		return err
	}
	for _, s := range more { // after the figures and the findings, while there is room
		if room -= len(s.Body); room+spare/2 > 0 {
			all = append(all, s)
		}
	}
	l.Sections = all
	return l.write(w)
}

// standingOutcome is what a standing verification has found: badge, kind and sentence.
func (r *reviewPage) standingOutcome() (badge, kind, sentence string) {
	counts := r.counts()
	lost, open := counts["fails"]+counts["fails already"], counts["unverified"]
	covered := text.Count(len(r.images), "image")
	for _, f := range r.Findings {
		if f.Rule == "RejectedByMCO" {
			return "Stuck", "bad", "The Machine Config Operator rejects the objects in force, and applies no mirror change: " + f.Reason + "."
		}
	}
	switch {
	case len(r.images) == 0:
		return "Nothing to verify", "note", "The mirror objects in force cover no image in use."
	case lost > 0:
		return "Images are missing", "bad", fmt.Sprintf("Nodes could not pull %s of %s that mirror objects cover.", text.Number(lost), covered)
	case open > 0:
		return "Not all determined", "unknown", fmt.Sprintf("Of %s that mirror objects cover, it could not be determined of %s whether nodes get them.", covered, text.Number(open))
	default:
		return "Verified", "good", fmt.Sprintf("Nodes get all of %s that mirror objects cover.", covered)
	}
}

// A nextRelease is the release that the cluster is to be updated to, in brief.
type nextRelease struct {
	Judged string
	Whole  wholeList // about the release as a whole
	Images []releaseRow
	Left   int
	// Command shows all of it; "" if there is nothing to show.
	Command string
}

// maxOpen is how many images of the next release have a line.
const maxOpen = 20

func (r *Report) releasePart(c Context) part {
	n := r.Release
	if n == nil {
		return part{empty: true}
	}
	p := part{section: section{ID: "release", Title: "The next release", Note: strings.ToLower(n.Verdict)}, template: "release-next.html"}
	if n.Review == nil {
		p.Lead = "No release is judged: " + n.Reason + "."
		if n.Marked != "" {
			p.Lead = strings.TrimSpace("Release "+n.Version) + " (" + n.Marked + ") could not be judged: " + n.Reason + "."
		}
		p.data = nextRelease{Judged: utc(n.Judged)}
		return p
	}
	c.Whole = ""
	of := newReleasePage(*n.Review, c)
	next := nextRelease{Judged: utc(n.Judged), Whole: of.whole(), Command: "mirrorset-guard release " + nextWords[n.Marked] + " -o html=release.html"}
	next.Whole.Cards = slices.DeleteFunc(next.Whole.Cards, func(c wholeCard) bool { return c.Kind == "good" })
	open := slices.DeleteFunc(of.images, func(i releaseRow) bool { return i.Result == readinessOf("READY").word })
	slices.SortStableFunc(open, func(a, b releaseRow) int { return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind]) })
	next.Left = max(0, len(open)-maxOpen)
	next.Images = open[:len(open)-next.Left]
	p.Lead, p.data = of.sentence(), next
	return p
}

// nextWords has the words by which the command release finds the marked release.
var nextWords = map[string]string{"desired": "desired", "recommended": "next"}

func (r *Report) rolloutPart() part {
	if r.Rollout == nil {
		return part{empty: true}
	}
	v := newStatus(r.Rollout)
	return part{section: section{ID: "pools", Title: "Rollouts", Lead: v.Sentence}, template: "pools.html", data: v, empty: len(v.Pools) == 0}
}

func decisionsPart(decisions []auditv1alpha1.Decision) part {
	rows := make([]decisionRow, len(decisions))
	for i := range decisions {
		rows[i] = newDecisionRow(&decisions[i])
	}
	return part{section: section{ID: "decisions", Title: "Last decisions", Lead: "Those of this replica since it started."}, template: "decisions.html", data: rows, empty: len(rows) == 0}
}

// A decisionRow is a decision in a line.
type decisionRow struct {
	Time, UID, Verdict, Kind, User, What, Reason, Short string
}

// maxReason is how much of a reason a row shows, in characters.
const maxReason = 300

// decisionKinds has the kind of each verdict that is not merely a remark.
var decisionKinds = map[string]string{"allowed": "good", "denied": "bad", "none": "unknown", "waived": "warn", "overridden": "warn", "malformed": "unknown"}

func newDecisionRow(d *auditv1alpha1.Decision) decisionRow {
	kind := decisionKinds[d.Verdict]
	if kind == "" {
		kind = "note"
	}
	what := d.Operation + " " + d.Object.Kind + " " + d.Object.Name
	if d.DryRun {
		what += " (dry run)"
	}
	if d.SenderNotKnown {
		what += " (sender not known)"
	}
	return decisionRow{utc(&d.Time), text.Line(d.UID), text.Line(d.Verdict), kind, text.Line(d.User.Name), text.Line(what), text.Cut(text.Line(d.Reason), maxText), text.Cut(text.ShortDigests(text.Line(d.Reason)), maxReason)}
}

// WriteDecision writes a recorded decision as a page.
func WriteDecision(w io.Writer, d auditv1alpha1.Decision, c Context) error {
	row := newDecisionRow(&d)
	l := layout{Title: row.Verdict + ": " + row.What, Badge: row.Verdict, Kind: row.Kind, Sentence: row.What, Context: c}
	c.Time, l.Context.Time = d.Time, d.Time
	l.Context.Requester = d.User.Name
	if len(d.User.Groups) > 0 {
		l.Context.Requester += " (" + text.Names(d.User.Groups, maxConsumers) + ")"
	}
	l.Basis = []basis{{"Mode", text.Line(d.Mode)}, {"Request", row.UID}, {"Replica", text.Line(d.Guard.Replica)}, {"Time taken", fmt.Sprintf("%.2g s", d.Seconds)}}
	r := newReviewPage(cleaned(v1alpha1.Review{Findings: d.Findings, Notes: d.Notes}), c)
	findings, err := r.findingList()
	if err != nil {
		return err
	}
	findings.Left += d.FindingsOmitted
	l.Sections, err = sections(
		part{section: section{ID: "answer", Title: "The answer"}, template: "answer.html", data: row.Reason, empty: row.Reason == ""},
		part{section: section{ID: "findings", Title: findings.title()}, template: "findings.html", data: findings, empty: len(r.findings) == 0},
		part{section: section{ID: "forecast", Title: "The rollout"}, template: "answer.html", data: "It " + text.Line(d.Forecast) + ".", empty: d.Forecast == ""},
		part{section: section{ID: "notes", Title: "Notes"}, template: "list.html", data: r.Notes, empty: len(r.Notes) == 0},
	)
	if err != nil {
		return err
	}
	return l.write(w)
}
