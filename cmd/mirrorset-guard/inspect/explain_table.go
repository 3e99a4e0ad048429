package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// columnWidth is that of two columns, each with a margin to its left.
const columnWidth = (cli.TableWidth - 2*cli.Margin) / 2

// A paragraph is a place with its description, or a remark on the
// places that follow.
type paragraph struct {
	label string // "" for a remark, which has no body either
	head  string // of a place its reference, which a column must not break
	body  string
}

// An explanation prints the routes of an Explainer.
type explanation struct{ *review.Explainer }

func (e explanation) print(w io.Writer, changed bool) {
	for i, img := range e.Images {
		if i > 0 {
			fmt.Fprintln(w)
		}
		cli.WriteLines(w, cli.Wrapped(text.ShortDigests(img.Image), cli.TableWidth), 0)
		e.printRoutes(w, img, changed)
		for _, note := range img.Notes() {
			cli.WriteLines(w, cli.Wrapped("Note: "+note, cli.TableWidth-cli.Margin), cli.Margin)
		}
	}
	e.printVariants(w)
}

func (e explanation) printVariants(w io.Writer) {
	if variants := e.After.Set.Variants(); len(variants) > 1 {
		fmt.Fprintln(w)
		cli.WriteLines(w, cli.Wrapped(otherFiles(variants), cli.TableWidth), 0)
	}
}

// otherFiles names the nodes that take the routes, where not all have the same files.
func otherFiles(variants []mirrors.Variant) string {
	var others []string
	for _, v := range variants[1:] {
		others = append(others, v.Pools...)
	}
	slices.Sort(others)
	return fmt.Sprintf("Note: these are the routes of nodes of %s; MachineConfigs put other files on those of %s",
		strings.Join(variants[0].Pools, ", "), strings.Join(others, ", "))
}

func (e explanation) printRoutes(w io.Writer, img review.ImageRoutes, changed bool) {
	before, after := e.paragraphs(e.Before, img.Image, img.Before), e.paragraphs(e.After, img.Image, img.After)
	switch {
	case !changed:
		writeStacked(w, after, cli.Margin)
	case slices.Equal(before, after):
		cli.WriteLines(w, []string{"the same before and after the change:"}, cli.Margin)
		writeStacked(w, after, 2*cli.Margin)
	case fitColumn(before) && fitColumn(after):
		writeSideBySide(w, before, after)
	default:
		cli.WriteLines(w, []string{"before the change:"}, cli.Margin)
		writeStacked(w, before, 2*cli.Margin)
		cli.WriteLines(w, []string{"after the change:"}, cli.Margin)
		writeStacked(w, after, 2*cli.Margin)
	}
}

// paragraphs describes the route of a node to image by a configuration.
func (e explanation) paragraphs(r mirrors.Resolution, image string, route mirrors.Route) []paragraph {
	candidates, err := r.Candidates(image)
	if err != nil { // then there is no route either
		return nil
	}
	all := e.candidateParagraphs(r, candidates)
	switch {
	case route.Refused != "":
		all = append(all, paragraph{head: "nodes refuse it wherever it comes from: " + route.Refused})
	case route.Err == nil && len(route.Open()) == 0:
		all = append(all, paragraph{head: "nothing is left to try: it cannot be pulled"})
	}
	return all
}

func (e explanation) candidateParagraphs(r mirrors.Resolution, candidates []string) []paragraph {
	var all []paragraph
	if len(candidates) > 1 {
		all = append(all, paragraph{head: fmt.Sprintf("a short name: the %d search registries are tried in turn", len(candidates))})
	}
	tried := 0
	for _, ref := range candidates {
		route, err := r.Route(ref, e.Namespace)
		if err != nil {
			continue // a candidate is a reference
		}
		head := entryText(r, route.Entry)
		if len(candidates) > 1 {
			head = text.ShortDigests(ref) + ": " + head
		}
		all = append(all, paragraph{head: head})
		if len(route.Sources) > 0 {
			all = append(all, requiredParagraphs(route.Sources[0].Trust)...)
		}
		all = append(all, e.stepParagraphs(r, ref, route, tried)...)
		tried += len(route.Sources)
	}
	return all
}

// stepParagraphs numbers the steps to ref from what has been tried before.
func (e explanation) stepParagraphs(r mirrors.Resolution, ref string, route mirrors.Route, tried int) []paragraph {
	if route.Err != nil {
		return []paragraph{{head: "the pull fails before anything is asked: " + text.ShortDigests(route.Err.Error())}}
	}
	var all []paragraph
	for _, step := range r.Steps(ref, route) {
		label := "-"
		if step.Serves == "" {
			tried++
			label = fmt.Sprintf("%d.", tried)
		}
		all = append(all, paragraph{label: label, head: text.ShortDigests(step.Ref), body: e.remark(r, step)})
	}
	return all
}

func (e explanation) remark(r mirrors.Resolution, step mirrors.Step) string {
	what := "source"
	if step.Mirror {
		what = "mirror"
	}
	switch {
	case step.Serves != "":
		return fmt.Sprintf("%s, skipped: serves %s only", what, step.Serves)
	case step.Blocked:
		return fmt.Sprintf("%s, %s", what, blockText(r, step.BlockedBy))
	}
	tried := what + ", tried"
	if step.Insecure {
		tried += " without verifying certificates (" + mirrors.InsecureList + ")"
	}
	if step.Attachments {
		tried += ", signatures looked for"
	} else if step.Trust != nil {
		tried += ", no signatures looked for (registries.d)"
	}
	source := step.PullSource
	if step.WantsSignatures() {
		source.Depth = max(source.Depth, mirrors.DepthManifest)
	}
	if f, ok := e.Facts[source.Location]; ok {
		tried += ": " + factText(f)
	}
	for _, s := range policy.SignaturesAt(source, e.Facts) {
		tried += "; " + signatureText(s)
	}
	return tried
}

// requiredParagraphs say what nodes require of the signatures of an image.
func requiredParagraphs(trust *mirrors.Trust) []paragraph {
	if trust == nil {
		return nil
	}
	var requirements []string
	for _, r := range trust.Requirements.List() {
		requirements = append(requirements, r.String())
	}
	return []paragraph{{head: "required by " + trust.Origin(maxMakers) + ": " + strings.Join(requirements, "; and ")}}
}

func signatureText(s policy.SignatureFinding) string {
	what := "signature"
	if s.Platform != "" {
		what += " for " + s.Platform
	}
	what += " " + s.State
	if s.Detail != "" {
		what += ": " + text.ShortDigests(s.Detail)
	}
	return what
}

func factText(f *policy.Fact) string {
	if f.Detail == "" {
		return f.Presence.String()
	}
	return f.Presence.String() + ": " + text.ShortDigests(f.Detail)
}

func (p paragraph) lines(width int) []string {
	if p.label == "" {
		return cli.Wrapped(p.head, width)
	}
	lines := slices.Concat(cli.Wrapped(p.head, width-labelWidth-1), cli.Wrapped(p.body, width-labelWidth-1))
	for i, line := range lines {
		label := ""
		if i == 0 {
			label = p.label
		}
		lines[i] = fmt.Sprintf("%-*s %s", labelWidth-1, label, line)
	}
	return lines
}

// labelWidth is that of "1. "; one more is kept free for a tenth place.
const labelWidth = 3

func fitColumn(ps []paragraph) bool {
	return !slices.ContainsFunc(ps, func(p paragraph) bool { return p.label != "" && labelWidth+len(p.head) >= columnWidth })
}

func writeStacked(w io.Writer, ps []paragraph, indent int) {
	for _, p := range ps {
		cli.WriteLines(w, p.lines(cli.TableWidth-indent), indent)
	}
}

// writeSideBySide writes two routes in columns, the paragraphs of each pair at
// the same height.
func writeSideBySide(w io.Writer, left, right []paragraph) {
	writeRow(w, []string{"before the change"}, []string{"after the change"})
	for i := range max(len(left), len(right)) {
		writeRow(w, linesAt(left, i), linesAt(right, i))
	}
}

func linesAt(ps []paragraph, i int) []string {
	if i >= len(ps) {
		return nil
	}
	return ps[i].lines(columnWidth)
}

func writeRow(w io.Writer, left, right []string) {
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		line := fmt.Sprintf("%*s%-*s%*s%s", cli.Margin, "", columnWidth, l, cli.Margin, "", r)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
