package whatif

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// Document returns d as JSON.
func (d Deletion) Document() v1alpha1.Deletion {
	doc := v1alpha1.Deletion{
		APIVersion: v1alpha1.APIVersion, Kind: "Deletion", List: d.List.name, Allowed: d.Allowed,
		Items: len(d.List.items), Elsewhere: d.Elsewhere, Needed: []v1alpha1.NeededPlace{}, Findings: review.FindingDocuments(d.Findings),
		Notes: append([]string{}, d.Notes...), Seconds: d.Took.Seconds(),
	}
	for _, n := range d.Needed {
		place := v1alpha1.NeededPlace{
			Item: n.Item, Deleted: d.List.items[n.Item-1].String(), Loses: n.Why, Reference: n.Place.Ref, Place: n.Number, Entry: n.Entry,
			Image: n.Image.Ref, Use: n.Image.Use().String(), Consumers: review.ConsumerDocuments(n.Image), Broken: n.Broken,
		}
		if n.Puller != mirrors.Nodes {
			place.Puller = n.Puller.String()
		}
		doc.Needed = append(doc.Needed, place)
	}
	return doc
}

// answer says in a sentence what d does.
func (d Deletion) answer() string {
	items := map[int]bool{}
	for _, n := range d.Needed {
		items[n.Item] = true
	}
	all := text.Count(len(d.List.items), "item")
	switch {
	case len(items) == 0 && d.Allowed:
		return fmt.Sprintf("takes nothing away from nodes of this cluster: they pull none of its %s.", all)
	case d.Allowed:
		return fmt.Sprintf("breaks no pull of a node: of its %s, this cluster pulls %s, which nodes also get elsewhere, or do not need.", all, text.Number(len(items)))
	case len(items) == 0:
		return fmt.Sprintf("is refused: it could not be determined whether nodes of this cluster pull any of its %s.", all)
	default:
		return fmt.Sprintf("is refused: of its %s, nodes of this cluster still pull %s.", all, text.Number(len(items)))
	}
}

// Answer returns d for people: the breakages in full, and then the places that nodes would miss where they find
// the image at another one.
func (d Deletion) Answer() *answer.Answer {
	a := &answer.Answer{
		Verdict: "Breaks nothing", Tone: answer.Good, Subject: d.List.name, Headline: "Deleting what " + d.List.name + " lists " + d.answer(),
		Notes: d.Notes, Basis: []string{review.AskedFromHere}, Cases: d.cases, Took: d.Took,
	}
	switch {
	case !d.Allowed:
		a.Verdict, a.Tone = "Refused", answer.Bad
	case len(d.Findings) > 0:
		a.Verdict = "Breaks nothing, with warnings"
	}
	a.Add(words.Told(d.Findings))
	if lines := d.others(); len(lines) > 0 {
		a.Add(answer.List{Title: pulledAsWell + ":", Items: answer.Bullets(text.First(lines, maxReported, "place")), Folded: true})
	}
	if d.Elsewhere > 0 {
		a.Add(answer.Paragraphf("%s in repositories from which no node of this cluster pulls.", text.Plural(d.Elsewhere, "item is", "items are")))
	}
	return a
}

const (
	pulledAsWell = "Pulled from there as well, without breaking"
	// maxReported bounds the places that are listed below it, and maxConsumers the users of an image that are named.
	maxReported  = 20
	maxConsumers = 3
)

// others lists the places without which nodes still get their images.
func (d Deletion) others() (lines []string) {
	for _, n := range d.Needed {
		if n.Broken {
			continue
		}
		by := "named by the image itself"
		if n.Entry != "" {
			by = "by the entry " + n.Entry
		}
		use := n.Image.Use().String()
		if n.Puller != mirrors.Nodes {
			use = "for " + n.Puller.String()
		}
		lines = append(lines, fmt.Sprintf("%s: item %d takes %s; place %d of the route of %s, %s; %s, used by %s", n.Place.Ref, n.Item, n.Why, n.Number,
			n.Image.Ref, by, use, n.Image.ConsumerNames(maxConsumers)))
	}
	return lines
}

// cases yields a case for the list as a whole, and for each image that nodes look for in a repository from which something
// is deleted.
func (d Deletion) cases(yield func(answer.Case) bool) {
	found, loses := map[string]answer.Findings{}, map[string][]string{}
	for _, f := range d.Findings {
		found[f.Image.Ref] = append(found[f.Image.Ref], words.OfFinding(f))
	}
	for _, n := range d.Needed {
		loses[n.Image.Ref] = append(loses[n.Image.Ref], fmt.Sprintf("%s: %s takes %s", n.Place.Ref, d.List.called(n.Item), n.Why))
	}
	whole := answer.CaseOf("deletion", "the list", found[""])
	whole.Lines = []string{"It " + d.answer()}
	if !yield(whole) {
		return
	}
	for _, ref := range d.Images {
		c := answer.CaseOf("image", ref, found[ref])
		c.Lines = loses[ref]
		if !yield(c) {
			return
		}
	}
}

// Document returns l as JSON.
func (l KeepList) Document() v1alpha1.KeepList {
	doc := v1alpha1.KeepList{
		APIVersion: v1alpha1.APIVersion, Kind: "KeepList", Scope: l.Scope, Items: []v1alpha1.KeptReference{},
		Unknown: append([]string{}, l.Unknown...), Notes: append([]string{}, l.Notes...),
	}
	for _, k := range l.Kept {
		item := v1alpha1.KeptReference{Reference: k.Reference, Signature: k.Of == signatureOf, Use: k.use().String(), Images: []v1alpha1.InventoryImage{}}
		item.Images = append(item.Images, review.InventoryDocument(k.Images).Images...)
		doc.Items = append(doc.Items, item)
	}
	return doc
}

// use is the most important use of k.
func (k Kept) use() policy.Use {
	var all policy.Image
	for _, img := range k.Images {
		all.Consumers = append(all.Consumers, img.Consumers...)
	}
	return all.Use()
}

// Lines returns l as references, a line each, below a comment that says what they are and lists the
// unknowns.
func (l KeepList) Lines() string {
	var b strings.Builder
	b.WriteString(text.Comment("What a deletion below %s has to spare: %s, indexes with their parts.", l.Scope, text.Count(len(l.Kept), "reference")))
	for _, u := range l.Unknown {
		b.WriteString(text.Comment("Not known: %s", u))
	}
	for _, k := range l.Kept {
		fmt.Fprintln(&b, text.Line(k.Reference))
	}
	return b.String()
}

// Answer returns l for people, with who uses what.
func (l KeepList) Answer() *answer.Answer {
	a := &answer.Answer{
		Subject: l.Scope, Notes: l.Notes, Basis: []string{review.AskedFromHere},
		Headline: fmt.Sprintf("A deletion below %s has to spare %s for nodes of this cluster, indexes with their parts.", l.Scope, text.Count(len(l.Kept), "reference")),
	}
	var kept []answer.Item
	for _, k := range l.Kept {
		users := convert.Each(k.Images, func(img policy.Image) string { return k.Of + img.Ref + ", used by " + img.ConsumerNames(maxConsumers) })
		kept = append(kept, answer.Item{Mark: "-", Line: answer.Line{{Text: k.Reference, Code: true}, {Text: fmt.Sprintf(" (%s)", k.use())}}, Below: answer.Indented(users)})
	}
	a.Add(answer.List{Items: kept}, answer.List{Title: "Not known:", Items: answer.Bullets(l.Unknown)})
	return a
}
