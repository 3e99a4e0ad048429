package review

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

const (
	// maxExplained is how many consumers of an image are named: JSON has all.
	maxExplained = 20
	// maxMakers is how many objects are named for one entry: more do not help to
	// find the one that is to be changed.
	maxMakers = 4
)

// Answer returns the routes for people: those of one configuration, or before and after a change if changed is set.
func (e *Explainer) Answer(changed bool) *answer.Answer {
	a := &answer.Answer{Subject: "the routes"}
	for _, img := range e.Images {
		items := e.routeItems(img, changed)
		for _, note := range img.Notes() {
			items = append(items, answer.Item{Line: answer.Labelled(answer.Strong, "Note:", note)})
		}
		a.Add(answer.List{Title: text.ShortDigests(img.Image), Items: append(items, img.consumerItems()...)})
	}
	if variants := e.After.Set.Variants(); len(variants) > 1 {
		a.Notes = []string{otherFiles(variants)}
	}
	if len(e.gaps) > 0 {
		a.Notes = append(a.Notes, "something else may use it, as not all could be read: "+policy.GapNames(e.gaps))
	}
	return a
}

// otherFiles names the nodes that take the routes, where not all have the same files.
func otherFiles(variants []mirrors.Variant) string {
	var others []string
	for _, v := range variants[1:] {
		others = append(others, v.Pools...)
	}
	slices.Sort(others)
	return fmt.Sprintf("these are the routes of nodes of %s; MachineConfigs put other files on those of %s",
		strings.Join(variants[0].Pools, ", "), strings.Join(others, ", "))
}

func (i ImageRoutes) consumerItems() []answer.Item {
	switch {
	case i.Consumers == nil:
		return nil
	case len(i.Consumers) == 0:
		return answer.Indented([]string{"nothing in the cluster uses it"})
	}
	lines := convert.Each(i.Consumers, func(c policy.Consumer) string {
		s := c.String()
		if c.Guessed {
			s += ", by the look of the object"
		}
		return s + ": " + c.Use.String()
	})
	return []answer.Item{{Line: answer.Say("used by " + text.Count(len(lines), "consumer")), Below: answer.Indented(text.First(lines, maxExplained, ""))}}
}

func (e *Explainer) routeItems(img ImageRoutes, changed bool) []answer.Item {
	before, after := e.items(e.Before, img.Image, img.Before), e.items(e.After, img.Image, img.After)
	under := func(title string, items []answer.Item) answer.Item {
		return answer.Item{Line: answer.Line{{Text: title, Tone: answer.Strong}}, Below: items}
	}
	switch {
	case !changed:
		return after
	case reflect.DeepEqual(before, after):
		return []answer.Item{under("the same before and after the change:", after)}
	default:
		return []answer.Item{under("before the change:", before), under("after the change:", after)}
	}
}

// items describe the route of a node to image by a configuration.
func (e *Explainer) items(r mirrors.Resolution, image string, route mirrors.Route) []answer.Item {
	candidates, err := r.Candidates(image)
	if err != nil { // then there is no route either
		return nil
	}
	var all []answer.Item
	if len(candidates) > 1 {
		all = answer.Indented([]string{fmt.Sprintf("a short name: the %d search registries are tried in turn", len(candidates))})
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
		all = append(all, answer.Item{Line: answer.Say(head), Below: e.placeItems(r, ref, route, tried)})
		tried += len(route.Sources)
	}
	switch {
	case route.Refused != "":
		all = append(all, answer.Item{Line: answer.Labelled(answer.Bad, "nodes refuse it wherever it comes from:", route.Refused)})
	case route.Err == nil && len(route.Open()) == 0:
		all = append(all, answer.Item{Line: answer.Line{{Text: "nothing is left to try: it cannot be pulled", Tone: answer.Bad}}})
	}
	return all
}

// placeItems say what nodes require of signatures, and number the places of a route from what has been tried before.
func (e *Explainer) placeItems(r mirrors.Resolution, ref string, route mirrors.Route, tried int) []answer.Item {
	var all []answer.Item
	if len(route.Sources) > 0 && route.Sources[0].Trust != nil {
		trust := route.Sources[0].Trust
		requirements := convert.Each(trust.Requirements.List(), func(r signing.Requirement) string { return r.String() })
		all = answer.Indented([]string{"required by " + trust.Origin(maxMakers) + ": " + strings.Join(requirements, "; and ")})
	}
	if route.Err != nil {
		return append(all, answer.Item{Line: answer.Labelled(answer.Bad, "the pull fails before anything is asked:", text.ShortDigests(route.Err.Error()))})
	}
	for _, step := range r.Steps(ref, route) {
		mark := "- "
		if step.Serves == "" {
			tried++
			mark = fmt.Sprintf("%d.", tried)
		}
		all = append(all, answer.Item{Mark: mark, Line: answer.Code(text.ShortDigests(step.Ref)), Below: []answer.Item{{Line: e.remark(r, step)}}})
	}
	return all
}

// remark says what nodes do at a place, and what is known of it.
func (e *Explainer) remark(r mirrors.Resolution, step mirrors.Step) answer.Line {
	what := "source"
	if step.Mirror {
		what = "mirror"
	}
	switch {
	case step.Serves != "":
		return answer.Sayf("%s, skipped: serves %s only", what, step.Serves)
	case step.Blocked:
		return answer.Line{{Text: what + ", "}, {Text: blockText(r, step.BlockedBy), Tone: answer.Caution}}
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
	line := answer.Say(tried)
	if f, ok := e.Facts[source.Location]; ok {
		line = answer.Line{{Text: tried + ": "}, {Text: f.Presence.String(), Tone: presenceTone(f.Presence)}}
		if f.Detail != "" {
			line = append(line, answer.Span{Text: ": " + text.ShortDigests(f.Detail)})
		}
	}
	for _, s := range evidence.SignaturesAt(source, e.Facts) {
		line = append(line, answer.Span{Text: "; " + signatureText(s)})
	}
	return line
}

func presenceTone(p policy.Presence) answer.Tone {
	switch p {
	case policy.Present:
		return answer.Good
	case policy.Denied, policy.Unreachable, policy.Unknown, policy.Inconclusive:
		return answer.Caution
	default:
		return answer.Bad
	}
}

func signatureText(s evidence.SignatureFinding) string {
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

// entryText says which entry of registries.conf decides, what made it, and whose
// mirrors it has where they are not its own.
func entryText(r mirrors.Resolution, scope string) string {
	if scope == "" {
		return "no entry of registries.conf covers it"
	}
	o := r.Origin(scope)
	if o.MachineConfig != "" {
		return fmt.Sprintf("entry %s, made by a file of MachineConfig %s", scope, o.MachineConfig)
	}
	line := fmt.Sprintf("entry %s, made by %s", scope, text.Names(o.Makers, maxMakers))
	if o.InheritedFrom != "" {
		line += fmt.Sprintf("; mirrors inherited from %s, made by %s", o.InheritedFrom, text.Names(o.InheritedMakers, maxMakers))
	}
	return line
}

// blockText says which entry blocks a place, and what it comes from.
func blockText(r mirrors.Resolution, scope string) string {
	o := r.BlockOrigin(scope)
	if o.MachineConfig != "" {
		return fmt.Sprintf("blocked by the entry %s (a file of MachineConfig %s)", scope, o.MachineConfig)
	}
	var by []string
	if len(o.Never) > 0 {
		by = append(by, "NeverContactSource in "+text.Names(o.Never, maxMakers))
	}
	switch {
	case o.ListedItself:
		by = append(by, mirrors.BlockedList)
	case o.Listed != "":
		by = append(by, fmt.Sprintf("%s in %s", o.Listed, mirrors.BlockedList))
	}
	return fmt.Sprintf("blocked by the entry %s (%s)", scope, strings.Join(by, "; "))
}
