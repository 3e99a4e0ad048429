package readiness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

// Title names the release: "Release 4.21.3 (quay.io/...@sha256:...)".
func (r *Readiness) Title() string {
	version := r.Version
	if version == "" {
		version = r.Choice.Version
	}
	return strings.ReplaceAll(text.Line("Release "+version+" ("+r.imageOrChoice()+")"), "Release  ", "Release ")
}

// Answer returns r for people: the verdict, the images that are not ready in the order in which an update needs them, one
// remedy for all, and what was not looked at.
func (r *Readiness) Answer() *answer.Answer {
	a := &answer.Answer{
		Verdict: r.State().String(), Tone: tones[r.State()], Subject: r.Title(), Notes: r.Notes, Basis: []string{review.AskedFromHere}, Took: r.Took,
		Lead: []answer.Line{answer.Say(r.found()), answer.Say(r.Summary())}, Cases: r.cases,
	}
	a.Add(answer.Drawn{Blocks: r.drawn}, answer.Section{ID: "findings", Title: "What is wrong"})
	r.addImages(a)
	a.Add(answer.Section{ID: "whole", Title: "The release as a whole"}, r.Signature.block())
	for _, p := range r.Problems {
		a.Add(answer.Stated(p.State.String()+":", tones[p.State], p.Reason, p.Detail))
	}
	if title, commands := r.remedies(); len(commands) > 0 {
		a.Add(answer.List{ID: "remedy", Title: title + ":", Items: answer.Commands(commands)})
	}
	a.Add(answer.List{ID: "unchecked", Title: "Not checked:", Items: answer.Bullets(r.unchecked())})
	return a
}

var tones = [...]answer.Tone{Unknown: answer.Unknown, NotReady: answer.Bad, Ready: answer.Good}

func (r *Readiness) found() string {
	found := "Found: " + r.Choice.Why + "."
	if r.ReadAt.Ref != "" {
		found += " Its payload was read from " + r.ReadAt.Ref
		if r.Platform != "" {
			found += ", for " + r.Platform
		}
		found += "."
	}
	return found
}

// Summary counts the images.
func (r *Readiness) Summary() string {
	if r.Version == "" {
		return "Which images it consists of is not known, as its release image could not be read."
	}
	onlySource := 0
	for i := range r.Images {
		if r.Images[i].onlySource() {
			onlySource++
		}
	}
	parts := []string{fmt.Sprintf("%s of %s can be pulled by all nodes that need them", text.Number(r.Count(Ready)+onlySource), text.Count(len(r.Images), "image"))}
	if onlySource > 0 {
		parts[0] += fmt.Sprintf(" (%s only from the source, which mirrors are to stand in for)", text.Number(onlySource))
	}
	if n := r.Count(NotReady) - onlySource; n > 0 {
		parts = append(parts, text.Number(n)+" cannot")
	}
	if n := r.Count(Unknown); n > 0 {
		parts = append(parts, "of "+text.Number(n)+" it is not known")
	}
	return strings.Join(parts, ", ") + "."
}

// onlySource reports whether all that is wrong with i is that nodes get it from its source, and from no mirror.
func (i *Image) onlySource() bool {
	denials := 0
	for _, f := range i.Findings {
		if f.Severity < policy.Deny {
			continue
		}
		if denials++; !f.OnlySource {
			return false
		}
	}
	return i.State == NotReady && denials > 0
}

// maxPools is how many pools are named.
const maxPools = 8

// maxTold is how many images are told about in full.
const maxTold = 20

// addImages adds a table of the images that are not ready, and the findings about the first of them; then warnings about others. A page
// has a table of all images anyway, and all findings.
func (r *Readiness) addImages(a *answer.Answer) {
	open := slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return i.State == Ready })
	table := answer.Table{Head: []string{"LEVEL", "IMAGE", "STATE", "REASON"}}
	for _, i := range open {
		table.Rows = append(table.Rows, []answer.Line{answer.Say(i.level()), answer.Say(i.Title()), {{Text: i.State.String(), Tone: tones[i.State]}}, answer.Say(i.reason())})
	}
	var found answer.Findings
	for _, i := range open[:min(len(open), maxTold)] {
		found = append(found, i.told()...)
	}
	a.Add(answer.Printed{Block: table}, answer.Printed{Block: found}, answer.Drawn{Blocks: r.allTold})
	if more := len(open) - maxTold; more > 0 {
		a.Add(answer.Printed{Block: answer.Paragraphf("and %s more: -o json has all.", text.Number(more))})
	}
	var warnings []string
	for _, i := range r.Images {
		for _, f := range i.Findings {
			if i.State == Ready {
				warnings = append(warnings, i.Title()+": "+f.Rule+": "+f.Reason)
			}
		}
	}
	a.Add(answer.Printed{Block: answer.List{Title: "Warnings:", Tone: answer.Caution, Items: answer.Bullets(text.First(warnings, maxTold, "warning"))}})
}

// allTold are the findings about all images, refusals first.
func (r *Readiness) allTold() []answer.Block {
	var bad, others answer.Findings
	for i := range r.Images {
		img := &r.Images[i]
		if img.State == Ready && len(img.Findings) == 0 {
			continue
		}
		for _, f := range img.told() {
			if f.Tone == answer.Bad {
				bad = append(bad, f)
			} else {
				others = append(others, f)
			}
		}
	}
	return []answer.Block{append(bad, others...)}
}

// maxDrawn is how many images have a cell and a row: no release has as many.
const maxDrawn = 1000

// drawn are the images in numbers, as a grid and as a table: of too many, the worst.
func (r *Readiness) drawn() []answer.Block {
	figures := answer.Figures{{Number: text.Number(len(r.Images)), Label: "images of the release"}}
	if len(r.Images) > 0 {
		figures[0].Link = "#images"
	}
	for _, s := range []State{NotReady, Unknown, Ready} {
		if n := r.Count(s); n > 0 {
			figures = append(figures, answer.Figure{Number: text.Number(n), Label: strings.ToLower(s.String()), Tone: tones[s], Link: "#images"})
		}
	}
	worst, title := r.Images, "All "+text.Count(len(r.Images), "image")
	if left := len(worst) - maxDrawn; left > 0 {
		rank := [...]int{NotReady: 0, Unknown: 1, Ready: 2}
		worst = slices.SortedStableFunc(slices.Values(worst), func(a, b Image) int { return cmp.Compare(rank[a.State], rank[b.State]) })[:maxDrawn]
		title = fmt.Sprintf("The worst %s of %s; %s more are left out", text.Number(maxDrawn), text.Count(len(r.Images), "image"), text.Number(left))
	}
	grid := answer.Grid{Anchor: "image"}
	table := answer.Table{ID: "image-rows", Anchor: "image", Title: title + ", in the order in which an update needs them", Head: []string{"Result", "Name", "Run level", "Image", "Comes from", "Why", "Signature"}}
	for i := range worst {
		img := &worst[i]
		cell, why := answer.Cell{Name: img.Title(), Word: strings.ToLower(img.State.String()), Tone: tones[img.State]}, ""
		if img.State != Ready || len(img.Findings) > 0 {
			why = img.reason()
		}
		if img.State == Ready && why != "" {
			cell.Word, cell.Tone = cell.Word+", with a warning", answer.Caution
		}
		grid.Cells = append(grid.Cells, cell)
		row := answer.Row(cell.Word, cell.Name, img.level(), img.Ref, text.ShortDigest(img.At), why, page.Signature(img.document().Signatures, img.Required))
		row[0][0].Tone = cell.Tone
		table.Rows = append(table.Rows, row)
	}
	return []answer.Block{
		figures,
		answer.Section{ID: "grid", Title: "The images as a grid"},
		answer.Paragraphf("In the order in which an update needs them. Each leads to its row."), grid,
		answer.Section{ID: "images", Title: "Images", Note: text.Count(len(r.Images), "image"), Last: true},
		table,
	}
}

// told returns the findings of i, without remedies where it is to be copied: there is one remedy for all of these.
func (i *Image) told() answer.Findings {
	subject := i.Title() + ": " + i.Ref
	if len(i.Findings) == 0 {
		return answer.Findings{{Rule: i.State.String(), Severity: strings.ToLower(i.State.String()), Tone: tones[i.State], Subject: subject, Reason: i.reason()}}
	}
	found := make(answer.Findings, len(i.Findings))
	for k, f := range i.Findings {
		if f.Copy != nil && f.Copy.Obstacle == "" {
			f.Remedy = nil
		}
		found[k] = words.OfFinding(f)
		found[k].Subject = subject
	}
	return found
}

// level says when an update needs an image.
func (i *Image) level() string {
	switch {
	case i.IsRelease:
		return "first"
	case i.OS:
		return "last"
	case i.Level == release.NoLevel:
		return "-"
	default:
		return strconv.Itoa(i.Level)
	}
}

// reason says in a few words why an image is not ready.
func (i *Image) reason() string {
	if len(i.Findings) > 0 {
		reason := text.Line(i.Findings[0].Reason)
		if len(i.Pools) > 0 {
			reason += " (for the nodes of " + text.Names(i.Pools, maxPools) + ")"
		}
		return reason
	}
	if i.State == NotReady {
		return "no node can make sense of the reference"
	}
	return "it could not be determined"
}

func (s *Signature) block() answer.Block {
	lines := answer.Stated("GPG signature: "+s.State.String()+":", tones[s.State], s.Reason, s.Detail)
	if s.Remedy != "" && s.State != Ready {
		lines = append(lines, answer.Labelled(answer.Hint, "To do:", s.Remedy))
	}
	return lines
}

// remedies are the ways to copy all that is missing, none if nothing can be copied.
func (r *Readiness) remedies() (title string, commands []string) {
	copies := r.copies()
	if len(copies) == 0 {
		return "", nil
	}
	commands = []string{
		r.remedy(), "with other tools: mirrorset-guard plan " + r.asks() + " --missing > copy.sh && sh copy.sh",
		"with oc-mirror: mirrorset-guard plan " + r.asks() + " -o imageset > imageset.yaml" + r.stanza(),
	}
	if len(copies) <= maxCommands {
		for i := range copies {
			commands = append(commands, copies[i].Commands()...)
		}
	}
	return fmt.Sprintf("To copy what is missing (%s)", text.Count(len(copies), "image")), commands
}

// copies are those that can be made.
func (r *Readiness) copies() []policy.Copy {
	return slices.DeleteFunc(r.Copies(), func(c policy.Copy) bool { return c.Obstacle != "" })
}

// Copies returns the required copies in the order in which an update needs them.
func (r *Readiness) Copies() []policy.Copy {
	position := map[string]int{}
	for k := range r.Images {
		position[r.Images[k].Ref] = k
	}
	copies := r.Judged.Judgement.Copies()
	slices.SortStableFunc(copies, func(a, b policy.Copy) int { return cmp.Compare(position[a.Image.Ref], position[b.Image.Ref]) })
	return copies
}

// asks are the flags that ask for the same again.
func (r *Readiness) asks() string {
	return "--release " + r.Asked + r.ClusterFlags
}

// remedy is the command that copies all that is missing, "" if nothing can be copied.
func (r *Readiness) remedy() string {
	if len(r.copies()) == 0 {
		return ""
	}
	return "mirrorset-guard sync " + r.asks()
}

// maxCommands is how many images are copied by single commands.
const maxCommands = 3

// stanza is what oc-mirror needs to be told of the release.
func (r *Readiness) stanza() string {
	if r.Version == "" || r.Channel == "" || r.Architecture == "" {
		return ""
	}
	architectures := ""
	if r.Architecture != "amd64" { // which oc-mirror takes without a word
		architectures = "architectures: [" + r.Architecture + "], "
	}
	return fmt.Sprintf(", or platform: {%schannels: [{name: %s, minVersion: %s, maxVersion: %s}]}", architectures, r.Channel, r.Version, r.Version)
}

// unchecked lists what cannot be known from outside, or was left out.
func (r *Readiness) unchecked() []string {
	lines := []string{
		"whether the operators are Upgradeable, and what the update itself does (oc adm upgrade says so)",
		"the images of operators and catalogs for that version of OpenShift",
	}
	if len(r.Choice.Risks) > 0 {
		lines = append(lines, "whether a risk of this update applies to the cluster: "+strings.Join(r.Choice.Risks, "; "))
	}
	if r.Count(Ready) > 0 {
		lines = append(lines, "pools with an image of their own for the system (osImageURL, MachineOSConfig) do not take that of the release, but one built on it")
	}
	return lines
}

// cases yields a case for the release image's GPG signature, for the release as a whole, with what was not checked, and for each
// image. A case that is not ready, or not known, fails.
func (r *Readiness) cases(yield func(answer.Case) bool) {
	all := []answer.Case{caseOf("release", "the GPG signature", r.Signature.State, r.Signature.Reason, append(slices.Clone(r.Signature.Detail), r.Signature.Remedy)...)}
	for _, about := range []string{AboutConfiguration, AboutImage} {
		if c := r.problemCase(about); c.Failed != "" || about == AboutConfiguration {
			all = append(all, c)
		}
	}
	for k := range r.Images {
		i := &r.Images[k]
		c := caseOf("image", i.Title()+" "+i.Ref, i.State, i.reason())
		c.Lines, c.Findings = nil, words.Told(i.Findings)
		all = append(all, c)
	}
	for _, c := range all {
		if !yield(c) {
			return
		}
	}
}

// caseOf returns the case of something in a state, for a reason.
func caseOf(class, name string, s State, reason string, detail ...string) answer.Case {
	c := answer.Case{Class: class, Name: name, Lines: append([]string{reason}, detail...)}
	if s != Ready {
		c.Failed, c.Message = s.String(), reason
	}
	return c
}

// problemCase is about the problems of one kind.
func (r *Readiness) problemCase(about string) answer.Case {
	state, reason := Ready, ""
	var lines []string
	for _, p := range r.Problems {
		if p.About != about {
			continue
		}
		if w := worst([]State{state, p.State}); w != state {
			state, reason = w, p.Reason
		}
		lines = append(append(lines, p.Reason), p.Detail...)
	}
	c := caseOf("release", about, state, reason)
	c.Lines = lines
	if about == AboutConfiguration {
		c.Lines = slices.Concat(lines, []string{"Not checked:"}, r.unchecked())
	}
	return c
}
