package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// findingsRoom is how many bytes findings in full may take, briefRoom how many where there are many
	// images. The list of images may take the rest of MaxBytes.
	findingsRoom, briefRoom = 450_000, 150_000
	// manyImages is a number of images from which on their rows have short digests, and no more than
	// the registry of the place that serves them.
	manyImages = 1000
)

// WriteReview writes a review as a page.
func WriteReview(w io.Writer, doc v1alpha1.Review, c Context) error {
	r := newReviewPage(cleaned(doc), c)
	l := r.layout()
	var err error
	if l.Sections, err = r.sections(); err != nil {
		return err
	}
	return l.write(w)
}

// A reviewPage is a review as the templates want it.
type reviewPage struct {
	v1alpha1.Review
	Context  Context
	standing bool       // whether it is a standing verification, and nothing changes
	images   []imageRow // worst first
	findings []findingCard
}

func newReviewPage(doc v1alpha1.Review, c Context) *reviewPage {
	r := &reviewPage{Review: doc, Context: c}
	r.findings = findingCards(doc.Findings)
	r.images = imageRows(doc)
	return r
}

func (r *reviewPage) layout() layout {
	badge, kind := r.outcome()
	return layout{
		Title: badge + ": " + r.Subject, Badge: badge, Kind: kind, Sentence: r.Summary, Basis: r.basis(), Context: r.Context, Asked: true,
	}
}

// outcome is the verdict in a word or two, and its kind.
func (r *reviewPage) outcome() (string, string) {
	switch {
	case !r.Allowed:
		return "Refused", "bad"
	case r.Waived != "":
		return "Admitted only because of the mode", "warn"
	case slices.ContainsFunc(r.Findings, func(f v1alpha1.Finding) bool { return f.Severity == "warn" }):
		return "Admitted with warnings", "warn"
	default:
		return "Admitted", "good"
	}
}

func (r *reviewPage) basis() []basis {
	exit := "0: would be admitted"
	if !r.Allowed {
		exit = "1: would be denied"
	}
	all := []basis{{"Subject", r.Subject}, {"Exit code", exit}, {"Mode", r.Mode}, {"Inventory", text.Count(r.Images.Total, "image")}, {"Registries", r.answered()}}
	return slices.DeleteFunc(all, func(b basis) bool { return b.Value == "" })
}

// answered says how old the answers of registries are: those that are known are as old as the oldest.
func (r *reviewPage) answered() string {
	var oldest, newest time.Time
	asked, untimed := 0, 0
	for _, s := range r.sources() {
		switch {
		case s.Fact == nil:
		case s.Fact.Time == nil:
			untimed++
		default:
			t := *s.Fact.Time
			if asked++; asked == 1 || t.Before(oldest) {
				oldest = t
			}
			if t.After(newest) {
				newest = t
			}
		}
	}
	var parts []string
	if asked > 0 {
		line := text.Count(asked, "answer") + ", " + utc(&oldest)
		if late := newest.UTC().Format("15:04:05"); late != oldest.UTC().Format("15:04:05") {
			line = fmt.Sprintf("%s, the oldest of %s, the latest of %s", text.Count(asked, "answer"), utc(&oldest), late)
		}
		parts = append(parts, line)
	}
	if untimed > 0 {
		parts = append(parts, text.Count(untimed, "place")+" without an answer, or without its time")
	}
	return cmp.Or(strings.Join(parts, "; "), "none was asked")
}

// sources returns each place of all new routes.
func (r *reviewPage) sources() []*v1alpha1.Source {
	var all []*v1alpha1.Source
	for i := range r.Rerouted {
		for k := range r.Rerouted[i].After.Sources {
			all = append(all, &r.Rerouted[i].After.Sources[k])
		}
	}
	return all
}

func (r *reviewPage) sections() ([]section, error) {
	findings, err := r.findingList()
	if err != nil {
		return nil, err
	}
	flow, namespaces, registries, drift := newFlow(r.Rerouted), namespaceRows(r.images), registryList{registryRows(r.Rerouted, r.Context.Time), trafficRows(r.Context.Traffic)}, driftRows(r.Rerouted, r.Findings)
	before := r.before()
	all, err := sections(
		part{section: section{ID: "figures", Title: "At a glance"}, template: "figures.html", data: r.figures()},
		part{section: section{ID: "findings", Title: r.title(findings.title(), "What is wrong"), Note: text.Count(len(r.findings), "finding")}, template: "findings.html", data: findings, empty: len(r.findings) == 0},
		part{section: section{ID: "flow", Title: r.title("Where images come from afterwards", "Where images come from"), Lead: "Sources on the left, the places that nodes ask for their images on the right, with the number of images and what was found there."}, template: "flow.html", data: flow, empty: len(flow.Edges) == 0},
		part{section: section{ID: "rollout", Title: "The rollout"}, template: "rollout.html", data: newForecast(r.Forecast), empty: r.Forecast == nil},
		part{section: section{ID: "namespaces", Title: "Namespaces", Note: text.Count(len(namespaces.All), "namespace")}, template: "namespaces.html", data: namespaces, empty: len(namespaces.All) == 0},
		part{section: section{ID: imagesID, Title: r.title("Images whose route changes", "Images that mirror objects cover"), Note: text.Count(len(r.images), "image")}, empty: len(r.images) == 0},
		part{section: section{ID: "drift", Title: "Tags that are not the same everywhere", Lead: "What the tag stands for at each place, by its digest."}, template: "drift.html", data: drift, empty: len(drift.Rows) == 0},
		part{section: section{ID: "before", Title: "What fails already", Lead: "These images cannot be pulled today either. The change is not to blame, and is not refused for them."}, template: "before.html", data: before, empty: r.standing || len(before.Rows) == 0},
		part{section: section{ID: "registries", Title: "Registries"}, template: "registries.html", data: registries, empty: len(registries.Rows)+len(registries.Traffic) == 0},
		part{section: section{ID: "assumed", Title: "What is assumed, and what is not known"}, template: "assumed.html", data: r.assumed()},
	)
	if err != nil {
		return nil, err
	}
	return all, r.addImages(all)
}

// title returns the title of a section about a change, or about the configuration in force.
func (r *reviewPage) title(change, standing string) string {
	if r.standing {
		return standing
	}
	return change
}

// imagesID is the section with the list of images, which has what room the others leave.
const imagesID = "images"

// addImages fills the section of the images.
func (r *reviewPage) addImages(all []section) error {
	room := roomBeside(all)
	for i := range all {
		if all[i].ID != imagesID {
			continue
		}
		list, err := r.imageList(room)
		if err != nil {
			return err
		}
		all[i].Body, err = render("images.html", list)
		return err
	}
	return nil
}

// roomBeside returns what the sections leave of MaxBytes.
func roomBeside(all []section) int {
	room := MaxBytes - spare - len(style) - len(script)
	for _, s := range all {
		room -= len(s.Body)
	}
	return room
}

// A figure is a number that leads to its rows.
type figure struct {
	Number, Label, Kind string
	// Link is where its rows are, and Filter which of them.
	Link, Filter string
}

func (r *reviewPage) figures() []figure {
	c, denials := r.Images, 0
	for _, f := range r.Findings {
		if f.Severity == "deny" {
			denials++
		}
	}
	counts := r.counts()
	images := ""
	if len(r.images) > 0 {
		images = "#" + imagesID
	}
	all := []figure{
		{text.Number(len(r.images)), "of " + text.Count(c.Total, "image") + r.covered(), "", images, ""},
		{text.Number(counts["verified"]), "verified", map[bool]string{true: "good"}[counts["verified"] > 0], images, query("result", resultWords["verified"])},
	}
	for _, f := range []struct {
		n                   int
		label, kind, result string
	}{
		{counts["fails"], "fail", "bad", "fails"}, {counts["unverified"], "not determined", "unknown", "unverified"}, {counts["assumed"], "assumed", "unknown", "assumed"}, {counts["fails already"], "fail already", "warn", "fails already"},
	} {
		if f.n > 0 {
			all = append(all, figure{text.Number(f.n), f.label, f.kind, images, query("result", resultWords[f.result])})
		}
	}
	if denials > 0 && !r.standing {
		all = append(all, figure{text.Number(denials), text.Plural(denials, "reason", "reasons")[len(text.Number(denials))+1:] + " to refuse it", "bad", "#findings", ""})
	}
	if f := r.Forecast; f != nil && f.Time.MaxSeconds > 0 {
		all = append(all, figure{spanText(f.Time), "to reach every node", "", "#rollout", ""})
	}
	return all
}

// covered ends a sentence about the images of the page.
func (r *reviewPage) covered() string {
	if r.standing {
		return " in use are covered by mirror objects"
	}
	return " change their route"
}

// counts counts images by their results.
func (r *reviewPage) counts() map[string]int {
	counts := map[string]int{}
	for i := range r.images {
		counts[r.images[i].Result]++
	}
	return counts
}

// spanText says a range of times: "15 to 45 min", "8 h".
func spanText(s v1alpha1.Span) string {
	least, most := timeText(s.MinSeconds), timeText(s.MaxSeconds)
	if least == most {
		return most
	}
	if a, unit, _ := strings.Cut(least, " "); strings.HasSuffix(most, " "+unit) {
		least = a
	}
	return least + " to " + most
}

func timeText(seconds float64) string {
	d := time.Duration(seconds) * time.Second
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	default:
		return fmt.Sprintf("%.3g h", d.Hours())
	}
}

// The assumed facts are those that an answer rests on beside what was found.
type assumed struct{ Notes, Unknown, Exempt []string }

func (r *reviewPage) assumed() assumed {
	a := assumed{Notes: r.Notes}
	if f := r.Forecast; f != nil {
		for _, u := range f.Unknown {
			a.Unknown = append(a.Unknown, "The forecast leaves out what could not be read: "+u+".")
		}
		if f.Simulation != nil && f.Simulation.Partial {
			a.Unknown = append(a.Unknown, "Time was up before the rollout was simulated to its end. What is shown of it proves nothing.")
		}
	} else if !r.standing {
		a.Unknown = append(a.Unknown, "What the change does to the nodes was not computed.")
	}
	for _, n := range []struct {
		n    int
		what string
	}{
		{r.Images.Unverified, "could not be determined"}, {r.Images.Pending, "were still being looked up when time was up"}, {r.Images.Malformed, "have a reference that no node can parse"},
	} {
		if n.n > 0 {
			a.Unknown = append(a.Unknown, text.Count(n.n, "image")+" "+n.what+".")
		}
	}
	for _, f := range r.Findings {
		for _, e := range f.Exemptions {
			if line := "Exemption " + e + " makes a warning of a denial."; !slices.Contains(a.Exempt, line) {
				a.Exempt = append(a.Exempt, line)
			}
		}
	}
	return a
}
