// Package page draws reviews and decisions: the pictures and tables of an answer that only a page shows.
//
//	a.Add(answer.Drawn{Blocks: func() []answer.Block { return page.Review(record.Document()) }})
//	html, err := a.HTML(answer.Page{Time: now, Cluster: "cluster.yaml"})
//
// It is pure, and draws documents alone (api/v1alpha1), so a picture cannot say more than they do. Their contents may come from strangers:
// package answer makes them safe to show.
package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Review draws the review of a change: what it rests on, numbers at a glance, routes, namespaces and images.
func Review(doc v1alpha1.Review) []answer.Block { return draw(&doc, false) }

// Standing draws a standing verification.
func Standing(doc v1alpha1.Review) []answer.Block { return draw(&doc, true) }

func draw(doc *v1alpha1.Review, standing bool) []answer.Block {
	flowTitle, imagesTitle, what := "Where images come from afterwards", "Images whose route changes", "whose route changes"
	if standing {
		flowTitle, imagesTitle, what = "Where images come from", "Images that mirror objects cover", "that mirror objects cover"
	}
	images := imagesOf(doc)
	namespaces, n := namespaceTable(images)
	blocks := []answer.Block{
		answer.Named{Name: "Mode", Value: doc.Mode},
		answer.Named{Name: "Inventory", Value: text.Count(doc.Images.Total, "image")},
		answer.Named{Name: "Registries", Value: answered(doc.Rerouted)},
		figures(doc, images, standing),
	}
	if f := flow(doc.Rerouted); len(f.Edges) > 0 {
		lead := "Sources on the left, the places that nodes ask for their images on the right, with the number of images and what was found there."
		blocks = append(blocks, answer.Section{ID: "flow", Title: flowTitle}, answer.Paragraphf("%s", lead), f)
	}
	if n > 0 {
		blocks = append(blocks, answer.Section{ID: "namespaces", Title: "Namespaces", Note: text.Count(n, "namespace")}, namespaces)
	}
	blocks = append(blocks, answer.List{ID: "unknown", Title: "Not known:", Items: answer.Bullets(notKnown(doc, standing))})
	if len(images) > 0 {
		lead := "Images that no object of the cluster names are not part of the answer."
		blocks = append(blocks, answer.Section{ID: "images", Title: imagesTitle, Note: text.Count(len(images), "image"), Last: true}, answer.Paragraphf("%s", lead), imageTable(images, what))
	}
	return blocks
}

// answered counts the answers of registries, with the time of the oldest.
func answered(rerouted []v1alpha1.Rerouted) string {
	timed, untimed := 0, 0
	var oldest time.Time
	for i := range rerouted {
		for _, s := range rerouted[i].After.Sources {
			switch {
			case s.Fact == nil:
			case s.Fact.Time == nil:
				untimed++
			default:
				if timed++; timed == 1 || s.Fact.Time.Before(oldest) {
					oldest = *s.Fact.Time
				}
			}
		}
	}
	var parts []string
	if timed > 0 {
		parts = append(parts, text.Count(timed, "answer")+", the oldest of "+answer.Moment(oldest))
	}
	if untimed > 0 {
		parts = append(parts, text.Count(untimed, "place")+" without an answer, or without its time")
	}
	return cmp.Or(strings.Join(parts, "; "), "none was asked")
}

func figures(doc *v1alpha1.Review, images []image, standing bool) answer.Figures {
	label, toImages := " change their route", ""
	if standing {
		label = " in use are covered by mirror objects"
	}
	if len(images) > 0 {
		toImages = "#images"
	}
	all := answer.Figures{{Number: text.Number(len(images)), Label: "of " + text.Count(doc.Images.Total, "image") + label, Link: toImages}}
	for i, n := range countsOf(images) {
		if n > 0 {
			all = append(all, answer.Figure{Number: text.Number(n), Label: results[i].figure, Tone: results[i].tone, Link: toImages})
		}
	}
	denials := len(slices.DeleteFunc(slices.Clone(doc.Findings), func(f v1alpha1.Finding) bool { return f.Severity != "deny" }))
	if denials > 0 && !standing {
		number, reasons, _ := strings.Cut(text.Count(denials, "reason"), " ")
		all = append(all, answer.Figure{Number: number, Label: reasons + " to refuse it", Tone: answer.Bad, Link: "#findings"})
	}
	if f := doc.Forecast; f != nil && f.Time.MaxSeconds > 0 {
		all = append(all, answer.Figure{Number: spanText(f.Time), Label: "to reach every node", Link: "#rollout"})
	}
	return all
}

// notKnown lists what an answer does not rest on.
func notKnown(doc *v1alpha1.Review, standing bool) (lines []string) {
	if c := doc.Images; c.Unverified > 0 {
		line := fmt.Sprintf("whether %s could be pulled", text.Count(c.Unverified, "image"))
		if c.Pending > 0 {
			line += fmt.Sprintf("; %s still being looked up when time was up", text.Plural(c.Pending, "was", "were"))
		}
		lines = append(lines, line)
	}
	if n := doc.Images.MovedOpen; n > 0 {
		lines = append(lines, fmt.Sprintf("whether %s that drains move could be pulled again", text.Count(n, "image")))
	}
	f := doc.Forecast
	if f == nil && !standing {
		lines = append(lines, "what the change does to the nodes")
	}
	if f != nil && len(f.Unknown) > 0 {
		lines = append(lines, "what the forecast leaves out, as it could not be read: "+strings.Join(f.Unknown, ", "))
	}
	if f != nil && f.Simulation != nil && f.Simulation.Partial {
		lines = append(lines, "whether the rollout ends: time was up before its simulation was done")
	}
	return lines
}

// spanText says a range of times: "15 to 45 minutes".
func spanText(s v1alpha1.Span) string {
	return rollout.Range{Min: time.Duration(s.MinSeconds) * time.Second, Max: time.Duration(s.MaxSeconds) * time.Second}.String()
}
