package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// WriteRelease writes whether nodes could pull a release as a page.
func WriteRelease(w io.Writer, doc v1alpha1.ReleaseReview, c Context) error {
	doc = cleaned(doc)
	of := readinessOf(doc.Verdict)
	l := layout{Title: of.badge + ": " + titleOf(&doc), Badge: of.badge, Kind: of.kind, Sentence: releaseSentence(&doc), Context: c, Asked: true}
	read := doc.ReadFrom
	if read != "" && doc.Platform != "" {
		read += ", for " + doc.Platform
	}
	l.Basis = []basis{{"Release", doc.Version}, {"Exit code", of.exit}, {"Release image", doc.Image}, {"Found", doc.Chosen}, {"Payload read from", read}, {"Took", timeText(doc.Seconds)}}
	images := releaseImages(&doc)
	l.add(section{ID: "whole", Title: "The release as a whole"}, whole(&doc))
	l.add(section{ID: "figures", Title: "At a glance"}, partOf("figure", nil, releaseFigures(&doc)))
	l.add(section{ID: "remedy", Title: "To copy what is missing"}, commands(doc.Remedy))
	l.add(section{ID: "grid", Title: "The images as a grid", Lead: "In the order in which an update needs them. Each leads to its row."}, grid(images))
	l.addFindings(releaseFindings(&doc), true, findingsRoom)
	l.add(section{ID: imagesID, Title: "Images", Note: text.Count(len(doc.Images), "image"), last: true}, releaseTable(images, len(doc.Images)))
	l.add(section{ID: "unchecked", Title: "What no check can know"}, listOf("", "unknown", doc.Unchecked), listOf("", "", doc.Notes))
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

func titleOf(doc *v1alpha1.ReleaseReview) string {
	if doc.Version == "" {
		return "the release"
	}
	return "release " + doc.Version
}

// releaseSentence is the answer in one or two.
func releaseSentence(doc *v1alpha1.ReleaseReview) string {
	said := map[string]string{"good": "is ready", "bad": "is not ready", "unknown": "is not known to be ready"}[readinessOf(doc.Verdict).kind]
	return text.Capital(titleOf(doc)) + " " + said + ". " + doc.Summary
}

// whole returns what is said of a release as a whole, the worst first.
func whole(doc *v1alpha1.ReleaseReview) part {
	s := doc.Signature
	signature := wholeCard("GPG signature of the release image", s.State, s.Reason, s.Detail)
	if s.State != "READY" {
		signature.Details = append(signature.Details, details(cardLine{Name: "To do", Commands: s.Remedy})...)
	}
	cards := []card{signature}
	for _, p := range doc.Problems {
		cards = append(cards, wholeCard(text.Capital(p.About), p.State, p.Reason, p.Detail))
	}
	slices.SortStableFunc(cards, func(a, b card) int { return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind]) })
	p := partOf("card", nil, cards)
	p.most = briefRoom
	return p
}

func wholeCard(what, state, reason string, detail []string) card {
	of := readinessOf(state)
	return card{Kind: of.kind, Title: what, Subject: of.word, Open: true, Reason: reason, Details: details(cardLine{Name: "In detail", Lines: text.First(detail, maxCardLines, "line")})}
}

// kindOrder puts the worst first.
var kindOrder = map[string]int{"bad": 0, "unknown": 1, "warn": 2, "good": 3}

func releaseFigures(doc *v1alpha1.ReleaseReview) []figure {
	link := ""
	if len(doc.Images) > 0 {
		link = "#" + imagesID
	}
	c := doc.Counts
	all := []figure{{text.Number(c.Images), "images of the release", "", link}}
	for _, of := range []struct {
		n     int
		state string
	}{{c.NotReady, "NOT READY"}, {c.Unknown, "UNKNOWN"}, {c.Ready, "READY"}} {
		if state := readinessOf(of.state); of.n > 0 {
			all = append(all, figure{text.Number(of.n), state.word, state.kind, link})
		}
	}
	return all
}

// releaseFindings are those about images of a release, which they name as the release does, too.
func releaseFindings(doc *v1alpha1.ReleaseReview) []v1alpha1.Finding {
	var all []v1alpha1.Finding
	for i := range doc.Images {
		for _, f := range doc.Images[i].Findings {
			f.Image = doc.Images[i].Name + " " + f.Image
			all = append(all, f)
		}
	}
	return all
}

// commands returns commands to copy.
func commands(lines string) part {
	if lines == "" {
		return part{}
	}
	return partOf("commands", nil, []string{lines})
}

// A releaseImage is an image of a release, with what its row and its cell say.
type releaseImage struct {
	*v1alpha1.ReleaseImage
	ID, Kind, Word string
}

// maxReleased is how many images of a release have a row, and a cell of the grid. No release has as many.
const maxReleased = 1000

// releaseImages returns the images of a release in the order of the document: of too many, the worst.
func releaseImages(doc *v1alpha1.ReleaseReview) []releaseImage {
	all := make([]releaseImage, len(doc.Images))
	for i := range doc.Images {
		img := &doc.Images[i]
		of := readinessOf(img.State)
		all[i] = releaseImage{img, "image-" + strconv.Itoa(i+1), of.kind, of.word}
		if of.kind == "good" && len(img.Findings) > 0 {
			all[i].Kind, all[i].Word = "warn", of.word+", with a warning"
		}
	}
	if len(all) <= maxReleased {
		return all
	}
	worst := slices.Clone(all)
	slices.SortStableFunc(worst, func(a, b releaseImage) int { return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind]) })
	shown := map[string]bool{}
	for _, i := range worst[:maxReleased] {
		shown[i.ID] = true
	}
	return slices.DeleteFunc(all, func(i releaseImage) bool { return !shown[i.ID] })
}

// maxCell is how long a name in the grid is.
const maxCell = 60

// grid returns a cell for each image.
func grid(images []releaseImage) part {
	p := partOf("cell", nil, images)
	p.most = briefRoom * 3
	return p
}

// Label returns the name as the grid has it.
func (i *releaseImage) Label() string { return middle(cmp.Or(i.Name, "(no name)"), maxCell) }

// releaseTable returns the rows of images, of which there are so many.
func releaseTable(images []releaseImage, n int) part {
	caption := "All " + text.Count(n, "image")
	if left := n - len(images); left > 0 {
		caption = fmt.Sprintf("The worst %s of %s; %s more are left out", text.Number(len(images)), text.Count(n, "image"), text.Number(left))
	}
	rows := make([]row, len(images))
	for i := range images {
		img := &images[i]
		_, digest, _ := strings.Cut(img.Image, "@")
		from := text.ShortDigest(strings.TrimSuffix(img.At, "@"+digest)) // which the image has anyway
		rows[i] = cells(readinessOf(img.State).word, img.Name, whenOf(img.ReleaseImage), img.Image, from, why(img.ReleaseImage), signatureText(img.Signatures, img.SignatureRequired))
		rows[i].ID, rows[i].Cells[0].Kind = img.ID, img.Kind
	}
	return tableOf(table{ID: "image-rows", Caption: caption + ", in the order in which an update needs them"}, rows, "Result", "Name", "Run level", "Image", "Comes from", "Why", "Signature")
}

// why says what is found about an image: the rules that object to it, or the reason where no rule gives one.
func why(img *v1alpha1.ReleaseImage) string {
	var rules []string
	for _, f := range img.Findings {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	switch kind := readinessOf(img.State).kind; {
	case len(rules) > 0 || kind == "good":
		return text.Names(rules, maxNamed)
	case kind == "bad":
		return "no node can make sense of the reference"
	default:
		return "it could not be determined"
	}
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
