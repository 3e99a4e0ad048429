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

// WriteReview writes a review as a page.
func WriteReview(w io.Writer, doc v1alpha1.Review, c Context) error {
	doc = cleaned(doc)
	badge, kind := outcome(&doc)
	l := layout{Title: badge + ": " + doc.Subject, Badge: badge, Kind: kind, Sentence: doc.Summary, Context: c, Asked: true}
	exit := "0: would be admitted"
	if !doc.Allowed {
		exit = "1: would be denied"
	}
	l.Basis = append([]basis{{"Subject", doc.Subject}, {"Exit code", exit}}, basisOf(&doc)...)
	l.addReview(&doc, imagesOf(&doc), false)
	return l.write(w)
}

// outcome is the verdict in a word or two, and its kind.
func outcome(doc *v1alpha1.Review) (badge, kind string) {
	switch {
	case !doc.Allowed:
		return "Refused", "bad"
	case doc.Waived != "":
		return "Admitted only because of the mode", "warn"
	case slices.ContainsFunc(doc.Findings, func(f v1alpha1.Finding) bool { return f.Severity == "warn" }):
		return "Admitted with warnings", "warn"
	default:
		return "Admitted", "good"
	}
}

func basisOf(doc *v1alpha1.Review) []basis {
	return []basis{{"Mode", doc.Mode}, {"Inventory", text.Count(doc.Images.Total, "image")}, {"Registries", answered(doc.Rerouted)}}
}

// answered says how old the answers of registries are: those that are known are as old as the oldest.
func answered(rerouted []v1alpha1.Rerouted) string {
	var times []time.Time
	untimed := 0
	for i := range rerouted {
		for _, s := range rerouted[i].After.Sources {
			switch {
			case s.Fact == nil:
			case s.Fact.Time == nil:
				untimed++
			default:
				times = append(times, *s.Fact.Time)
			}
		}
	}
	var parts []string
	if len(times) > 0 {
		oldest, newest := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
		line := text.Count(len(times), "answer") + ", " + utc(oldest)
		if late := newest.UTC().Format("15:04:05"); late != oldest.UTC().Format("15:04:05") {
			line = fmt.Sprintf("%s, the oldest of %s, the latest of %s", text.Count(len(times), "answer"), utc(oldest), late)
		}
		parts = append(parts, line)
	}
	if untimed > 0 {
		parts = append(parts, text.Count(untimed, "place")+" without an answer, or without its time")
	}
	return cmp.Or(strings.Join(parts, "; "), "none was asked")
}

// addReview adds what a review, or a standing verification, has found.
func (l *layout) addReview(doc *v1alpha1.Review, images []image, standing bool) {
	flowTitle, imagesTitle, what := "Where images come from afterwards", "Images whose route changes", "whose route changes"
	if standing {
		flowTitle, imagesTitle, what = "Where images come from", "Images that mirror objects cover", "that mirror objects cover"
	}
	room := findingsRoom
	if len(images) > manyImages {
		room = briefRoom
	}
	l.add(section{ID: "figures", Title: "At a glance"}, partOf("figure", nil, figures(doc, images, standing)))
	l.addFindings(doc.Findings, standing, room)
	l.add(section{ID: "flow", Title: flowTitle, Lead: "Sources on the left, the places that nodes ask for their images on the right, with the number of images and what was found there."}, newFlow(doc.Rerouted).parts()...)
	l.addForecast(doc.Forecast)
	namespaces, n := namespaceTable(images)
	l.add(section{ID: "namespaces", Title: "Namespaces", Note: text.Count(n, "namespace")}, namespaces)
	l.add(section{ID: imagesID, Title: imagesTitle, Note: text.Count(len(images), "image"), last: true}, imageTable(images, what))
	l.add(section{ID: "assumed", Title: "What is assumed, and what is not known"},
		listOf("", "unknown", notKnown(doc, standing)), listOf("", "warn", exempt(doc.Findings)),
		listOf("", "", append(doc.Notes, "Images that no object of the cluster names are not part of the answer.")))
}

// A figure is a number that leads to a section.
type figure struct{ Number, Label, Kind, Link string }

func figures(doc *v1alpha1.Review, images []image, standing bool) []figure {
	label, toImages := " change their route", ""
	if standing {
		label = " in use are covered by mirror objects"
	}
	if len(images) > 0 {
		toImages = "#" + imagesID
	}
	all := []figure{{text.Number(len(images)), "of " + text.Count(doc.Images.Total, "image") + label, "", toImages}}
	for i, n := range countsOf(images) {
		if n > 0 {
			all = append(all, figure{text.Number(n), results[i].figure, results[i].kind, toImages})
		}
	}
	denials := 0
	for _, f := range doc.Findings {
		denials += order(f.Severity == "deny")
	}
	if denials > 0 && !standing {
		reasons := strings.TrimLeft(text.Count(denials, "reason"), "0123456789, ")
		all = append(all, figure{text.Number(denials), reasons + " to refuse it", "bad", "#findings"})
	}
	if f := doc.Forecast; f != nil && f.Time.MaxSeconds > 0 {
		all = append(all, figure{spanText(f.Time), "to reach every node", "", "#rollout"})
	}
	return all
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

// notKnown lists what an answer does not rest on.
func notKnown(doc *v1alpha1.Review, standing bool) []string {
	var all []string
	if f := doc.Forecast; f != nil {
		for _, u := range f.Unknown {
			all = append(all, "The forecast leaves out what could not be read: "+u+".")
		}
		if f.Simulation != nil && f.Simulation.Partial {
			all = append(all, "Time was up before the rollout was simulated to its end. What is shown of it proves nothing.")
		}
	} else if !standing {
		all = append(all, "What the change does to the nodes was not computed.")
	}
	for _, c := range []struct {
		n    int
		what string
	}{
		{doc.Images.Unverified, "could not be determined"}, {doc.Images.Pending, "were still being looked up when time was up"}, {doc.Images.Malformed, "have a reference that no node can parse"},
	} {
		if c.n > 0 {
			all = append(all, text.Count(c.n, "image")+" "+c.what+".")
		}
	}
	return all
}

// exempt lists the exemptions that findings name.
func exempt(findings []v1alpha1.Finding) []string {
	var all []string
	for _, f := range findings {
		for _, e := range f.Exemptions {
			if line := "Exemption " + e + " makes a warning of a denial."; !slices.Contains(all, line) {
				all = append(all, line)
			}
		}
	}
	return all
}
