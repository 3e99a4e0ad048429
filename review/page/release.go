package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// WriteRelease writes whether nodes could pull a release as a page.
func WriteRelease(w io.Writer, doc v1alpha1.ReleaseReview, c Context) error {
	r := newReleasePage(cleaned(doc), c)
	l := layout{Title: r.state.badge + ": " + r.title(), Badge: r.state.badge, Kind: r.state.kind, Sentence: r.sentence(), Basis: r.basis(), Context: c, Asked: true}
	var err error
	if l.Sections, err = r.sections(); err != nil {
		return err
	}
	return l.write(w)
}

// A readiness is a state of a release or of a part of it, as the page has it.
type readiness struct{ badge, word, kind, exit string }

// readinessOf returns the view of a state. Any that is not plainly one of the others is not known.
func readinessOf(state string) readiness {
	switch state {
	case "READY":
		return readiness{state, "ready", "good", "0: ready"}
	case "NOT READY":
		return readiness{state, "not ready", "bad", "1: not ready"}
	default:
		return readiness{"UNKNOWN", "unknown", "unknown", "2: not all could be determined"}
	}
}

// A releasePage is a release as the templates want it.
type releasePage struct {
	v1alpha1.ReleaseReview
	context Context
	state   readiness
	images  []releaseRow // in the order of the document
}

func newReleasePage(doc v1alpha1.ReleaseReview, c Context) *releasePage {
	r := &releasePage{ReleaseReview: doc, context: c, state: readinessOf(doc.Verdict)}
	for i := range doc.Images {
		r.images = append(r.images, newReleaseRow(i, &doc.Images[i], len(doc.Images) > manyImages))
	}
	return r
}

func (r *releasePage) title() string {
	if r.Version == "" {
		return "the release"
	}
	return "release " + r.Version
}

// sentence is the answer in one.
func (r *releasePage) sentence() string {
	said := map[string]string{"good": "is ready", "bad": "is not ready", "unknown": "is not known to be ready"}[r.state.kind]
	title := r.title()
	if r.Version == "" {
		return fmt.Sprintf("%s %s: which images it consists of is not known, as its release image could not be read.", text.Capital(title), said)
	}
	c := r.Counts
	parts := []string{fmt.Sprintf("%s of %s can be pulled by all nodes that need them", text.Number(c.Ready), text.Count(c.Images, "image"))}
	if c.NotReady > 0 {
		parts = append(parts, text.Number(c.NotReady)+" cannot")
	}
	if c.Unknown > 0 {
		parts = append(parts, "of "+text.Number(c.Unknown)+" it is not known")
	}
	if whole := r.wholeOpen(); whole > 0 {
		parts = append(parts, text.Count(whole, "problem")+" of the release as a whole")
	}
	return "R" + title[1:] + " " + said + ": " + strings.Join(parts, ", ") + "."
}

// wholeOpen counts the problems of the release as a whole, including its signature.
func (r *releasePage) wholeOpen() int {
	return len(r.Problems) + order(r.Signature.State != "READY")
}

func (r *releasePage) basis() []basis {
	read := r.ReadFrom
	if read != "" && r.Platform != "" {
		read += ", for " + r.Platform
	}
	all := []basis{
		{"Release", r.Version}, {"Exit code", r.state.exit}, {"Release image", r.Image}, {"Found", r.Chosen}, {"Payload read from", read}, {"Took", timeText(r.Seconds)},
	}
	return slices.DeleteFunc(all, func(b basis) bool { return b.Value == "" })
}

func (r *releasePage) sections() ([]section, error) {
	whole, traffic := r.whole(), trafficRows(r.context.Traffic)
	open := r.wholeOpen()
	all, err := sections(
		part{section: section{ID: "whole", Title: "The release as a whole", Note: text.Count(open, "problem")}, template: "release-whole.html", data: whole},
		part{section: section{ID: "figures", Title: "At a glance"}, template: "figures.html", data: r.figures()},
		part{section: section{ID: "remedy", Title: "To copy what is missing"}, template: "release-remedy.html", data: r.Remedy, empty: r.Remedy == ""},
		part{section: section{ID: "grid", Title: "The images as a grid", Lead: "In the order in which an update needs them. Each leads to its row."}, empty: len(r.images) == 0},
		part{section: section{ID: imagesID, Title: "Images", Note: text.Count(len(r.images), "image")}, empty: len(r.images) == 0},
		part{section: section{ID: "word", Title: "The word that the cluster waits for"}, template: "release-word.html", data: r, empty: r.Acknowledgement == nil},
		part{section: section{ID: "registries", Title: "Registries"}, template: "traffic.html", data: traffic, empty: len(traffic) == 0},
		part{section: section{ID: "unchecked", Title: "What no check can know"}, template: "assumed-only.html", data: assumed{Notes: r.Notes, Unknown: r.unchecked()}, empty: len(r.Unchecked)+len(r.Risks)+len(r.Notes) == 0},
	)
	if err != nil {
		return nil, err
	}
	return all, r.addImages(all)
}

// unchecked has the risks too, if no line names them.
func (r *releasePage) unchecked() []string {
	all := slices.Clone(r.Unchecked)
	for _, risk := range r.Risks {
		if !slices.ContainsFunc(r.Unchecked, func(line string) bool { return strings.Contains(line, risk) }) {
			all = append(all, "whether this risk of the update applies to the cluster: "+risk)
		}
	}
	return all
}

// A wholeCard is something that is said of a release as a whole.
type wholeCard struct {
	What, Kind, Word, Reason string
	Places                   []string
	Remedy                   string
}

// maxProblems is how many problems of the release as a whole have a card.
const maxProblems = 50

// A wholeList has the worst cards first.
type wholeList struct {
	Cards []wholeCard
	Left  int
	Whole string
}

func (r *releasePage) whole() wholeList {
	l := wholeList{Whole: r.context.Whole, Left: max(0, len(r.Problems)-maxProblems)}
	s := r.Signature
	signature := newWholeCard("GPG signature of the release image", s.State, s.Reason, s.Detail)
	if s.State != "READY" {
		signature.Remedy = s.Remedy
	}
	l.Cards = append(l.Cards, signature)
	for _, p := range r.Problems[:len(r.Problems)-l.Left] {
		l.Cards = append(l.Cards, newWholeCard(text.Capital(p.About), p.State, p.Reason, p.Detail))
	}
	slices.SortStableFunc(l.Cards, func(a, b wholeCard) int { return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind]) })
	return l
}

func newWholeCard(what, state, reason string, detail []string) wholeCard {
	of := readinessOf(state)
	return wholeCard{What: what, Kind: of.kind, Word: of.word, Reason: reason, Places: text.First(detail, maxCardLines, "line")}
}

// kindOrder puts the worst first.
var kindOrder = map[string]int{"bad": 0, "unknown": 1, "warn": 2, "good": 3}

func (r *releasePage) figures() []figure {
	link := ""
	if len(r.images) > 0 {
		link = "#" + imagesID
	}
	all := []figure{{text.Number(r.Counts.Images), "images of the release", "", link, ""}}
	for _, f := range []struct {
		n     int
		state string
	}{{r.Counts.NotReady, "NOT READY"}, {r.Counts.Unknown, "UNKNOWN"}, {r.Counts.Ready, "READY"}} {
		if f.n > 0 {
			of := readinessOf(f.state)
			all = append(all, figure{text.Number(f.n), of.word, of.kind, link, query("result", of.word)})
		}
	}
	if n := r.wholeOpen(); n > 0 {
		all = append(all, figure{text.Number(n), "problems of the release as a whole", readinessOf(r.wholeState()).kind, "#whole", ""})
	}
	return all
}

// wholeState is the worst state among the problems of the release as a whole.
func (r *releasePage) wholeState() string {
	if r.Signature.State == "NOT READY" || slices.ContainsFunc(r.Problems, func(p v1alpha1.ReleaseProblem) bool { return p.State == "NOT READY" }) {
		return "NOT READY"
	}
	return "UNKNOWN"
}

// A releaseRow is an image of a release.
type releaseRow struct {
	imageRow
	Number int
	Name   string
	// When says when an update needs it.
	When string
	// Said is what was found.
	Said    []findingCard
	Further int // findings beyond maxSaid
	// Plain is the reason where no rule gives one.
	Plain string
}

func newReleaseRow(i int, img *v1alpha1.ReleaseImage, brief bool) releaseRow {
	of := readinessOf(img.State)
	row := releaseRow{imageRow: imageRow{Image: img.Image, Result: of.word, Kind: of.kind, Served: img.At, Brief: brief}, Number: i + 1, Name: img.Name, When: whenOf(img), Said: findingCards(img.Findings)}
	row.Further = max(0, len(row.Said)-maxSaid)
	row.Said = row.Said[:len(row.Said)-row.Further]
	row.Signature = signaturesText(img.Signatures, img.SignatureRequired)
	for _, ref := range []string{img.Image, img.At} {
		if host := registryOf(ref); host != "" && !slices.Contains(row.registries, host) {
			row.registries = append(row.registries, host)
		}
	}
	for _, f := range img.Findings {
		if !slices.Contains(row.rules, f.Rule) {
			row.rules = append(row.rules, f.Rule)
		}
	}
	switch {
	case of.kind == "good" && len(img.Findings) > 0:
		row.Kind = "warn"
	case of.kind == "bad" && len(img.Findings) == 0:
		row.Plain = "no node can make sense of the reference"
	case of.kind == "unknown" && len(img.Findings) == 0:
		row.Plain = "it could not be determined"
	}
	return row
}

// releaseName stands for the release image.
const releaseName = "release"

func whenOf(img *v1alpha1.ReleaseImage) string {
	switch {
	case img.Name == releaseName:
		return "first"
	case len(img.Pools) > 0:
		return "last, for the nodes of " + text.Names(img.Pools, maxNamed)
	case img.RunLevel == nil:
		return ""
	default:
		return strconv.Itoa(*img.RunLevel)
	}
}

// Registries returns the numbers, among the filter's, of those of the image and of the place that serves it.
func (r *releaseRow) Registries() string { return r.hostNumbers() }

// From returns where it comes from as the row shows it: without the digest that the image has anyway.
func (r *releaseRow) From() string {
	if _, digest, found := strings.Cut(r.Image, "@"); found && !r.Brief {
		return text.ShortDigest(strings.TrimSuffix(r.Served, "@"+digest))
	}
	return r.imageRow.From()
}

// Label returns the name as the grid has it.
func (r *releaseRow) Label() string { return middle(cmp.Or(r.Name, "(no name)"), maxCell) }

// maxCell is how long a name in the grid is, maxSaid how many findings of an image are shown.
const maxCell, maxSaid = 60, 10

// Mood says in a word or two what the colour says.
func (r *releaseRow) Mood() string {
	if r.Kind == "warn" {
		return r.Result + ", with a warning"
	}
	return r.Result
}

// addImages fills the grid and the table with those images that there is room for.
func (r *releasePage) addImages(all []section) error {
	list := rowList{All: len(r.images), Whole: r.context.Whole, Brief: len(r.images) > manyImages, Filters: r.filters()}
	list.Signatures = slices.ContainsFunc(r.images, func(i releaseRow) bool { return i.Signature != "" })
	cells, err := r.render(&list, roomBeside(all)-len(tooLarge))
	if err != nil {
		return err
	}
	for i := range all {
		switch all[i].ID {
		case "grid":
			all[i].Body, err = render("release-grid.html", rowList{Rows: cells, Left: list.Left})
		case imagesID:
			all[i].Body, err = render("release-images.html", list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *releasePage) filters() []filter {
	var review reviewPage
	for i := range r.images {
		review.images = append(review.images, r.images[i].imageRow)
	}
	all := review.filters()
	for _, f := range all {
		if f.Name == "registry" {
			for i := range r.images {
				r.images[i].hosts = f.Values
			}
		}
	}
	return all
}

// render renders rows into list, and returns the cells. The worst rows get room first, and those that got it
// stand in the order of the document, so that each cell has a row to lead to.
func (r *releasePage) render(list *rowList, room int) (template.HTML, error) {
	order := make([]int, len(r.images))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(kindOrder[r.images[a].Kind], kindOrder[r.images[b].Kind])
	})
	rendered := make([][2]template.HTML, len(r.images))
	for _, i := range order {
		row, _, err := rows("release-image.html", r.images[i:i+1], room)
		if err != nil {
			return "", err
		}
		cell, err := render("release-cell.html", &r.images[i])
		if err != nil {
			return "", err
		}
		if room -= len(row) + len(cell); row == "" || room < 0 {
			break
		}
		rendered[i] = [2]template.HTML{row, cell}
		list.Shown++
	}
	list.Left = leftOfRelease(r.images, order[list.Shown:])
	return joined(rendered, list), nil
}

// joined writes what was rendered into list, and returns the cells.
func joined(rendered [][2]template.HTML, list *rowList) template.HTML {
	var all, cells bytes.Buffer
	for _, p := range rendered {
		all.WriteString(string(p[0]))
		cells.WriteString(string(p[1]))
	}
	list.Rows = template.HTML(all.String()) //nolint:gosec // a template has escaped it
	return template.HTML(cells.String())    //nolint:gosec // as above
}

// leftOfRelease counts those images that found no room by their states.
func leftOfRelease(images []releaseRow, left []int) string {
	counts := map[string]int{}
	for _, i := range left {
		counts[images[i].Result]++
	}
	var parts []string
	for _, word := range []string{"not ready", "unknown", "ready"} {
		if n := counts[word]; n > 0 {
			parts = append(parts, text.Number(n)+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}
