package foreseen

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
		doc.Needed = append(doc.Needed, v1alpha1.NeededPlace{
			Item: n.Item, Deleted: d.List.items[n.Item-1].String(), Loses: n.Why, Reference: n.Place.Ref, Place: n.Number, Entry: n.Entry,
			Image: n.Image.Ref, Use: n.Image.Use().String(), Consumers: review.ConsumerDocuments(n.Image), Broken: n.Broken,
		})
	}
	return doc
}

// maxReported bounds the places that a report for people lists, beside those that break something.
const maxReported = 20

// Report returns the answer for people: what would break in full, and then what nodes would miss at one
// place and find at another.
func (d Deletion) Report() string {
	var b strings.Builder
	items := map[int]bool{}
	for _, n := range d.Needed {
		items[n.Item] = true
	}
	all := text.Count(len(d.List.items), "item")
	subject := "Deleting what " + text.Line(d.List.name) + " lists"
	switch {
	case len(items) == 0 && d.Allowed:
		fmt.Fprintf(&b, "%s takes nothing away from nodes of this cluster: they pull none of its %s.\n", subject, all)
	case d.Allowed:
		fmt.Fprintf(&b, "%s breaks no pull: of its %s, nodes of this cluster pull %s, which they also get elsewhere, or which only history names.\n", subject, all, text.Number(len(items)))
	case len(items) == 0:
		fmt.Fprintf(&b, "%s is refused: it could not be determined whether nodes of this cluster pull any of its %s.\n", subject, all)
	default:
		fmt.Fprintf(&b, "%s is refused: of its %s, nodes of this cluster still pull %s.\n", subject, all, text.Number(len(items)))
	}
	d.reportFindings(&b)
	d.reportOthers(&b)
	if d.Elsewhere > 0 {
		fmt.Fprintf(&b, "\n%s in repositories from which no node of this cluster pulls.\n", text.Plural(d.Elsewhere, "item is", "items are"))
	}
	return b.String()
}

// reportFindings gives denials, and then warnings.
func (d Deletion) reportFindings(b *strings.Builder) {
	n := 0
	for i, f := range d.Findings {
		n++
		if f.Severity != policy.Deny && (i == 0 || d.Findings[i-1].Severity == policy.Deny) {
			b.WriteString("\nWarnings:\n")
			n = 1
		}
		fmt.Fprintf(b, "\n%d. %s", n, f.Report())
	}
}

// reportOthers lists the places without which nodes still get their images.
func (d Deletion) reportOthers(b *strings.Builder) {
	var lines []string
	for _, n := range d.Needed {
		if n.Broken {
			continue
		}
		by := "named by the image itself"
		if n.Entry != "" {
			by = "by the entry " + n.Entry
		}
		lines = append(lines, fmt.Sprintf("- %s: item %d takes %s; place %d of the route of %s, %s; %s, used by %s", text.Line(n.Place.Ref), n.Item, n.Why, n.Number,
			text.Line(n.Image.Ref), text.Line(by), n.Image.Use(), n.Image.ConsumerNames(maxConsumers)))
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\nPulled from there as well, without breaking:\n%s\n", strings.Join(text.First(lines, maxReported, "place"), "\n"))
	}
}

// maxConsumers is how many users of an image are named.
const maxConsumers = 3

// Document returns l as JSON.
func (l KeepList) Document() v1alpha1.KeepList {
	doc := v1alpha1.KeepList{
		APIVersion: v1alpha1.APIVersion, Kind: "KeepList", Scope: l.Scope, Items: []v1alpha1.KeptReference{},
		Unknown: append([]string{}, l.Unknown...), Notes: append([]string{}, l.Notes...),
	}
	for _, k := range l.Kept {
		item := v1alpha1.KeptReference{Reference: k.Reference, Signature: k.Signature, Use: k.use().String(), Images: []v1alpha1.InventoryImage{}}
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

// Lines returns l as references, a line each, which begin with a comment that says what they are and
// what is missing.
func (l KeepList) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What nodes of this cluster may ask for below %s: %s, indexes with their parts.\n", text.Line(l.Scope), text.Count(len(l.Kept), "reference"))
	for _, u := range l.Unknown {
		fmt.Fprintf(&b, "# Not known: %s\n", text.Line(u))
	}
	for _, k := range l.Kept {
		fmt.Fprintln(&b, text.Line(k.Reference))
	}
	return b.String()
}

// Report returns l for people, with who uses what.
func (l KeepList) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Nodes of this cluster may ask for %s below %s, indexes with their parts:\n", text.Count(len(l.Kept), "reference"), text.Line(l.Scope))
	for _, k := range l.Kept {
		fmt.Fprintf(&b, "- %s (%s)\n", text.Line(k.Reference), k.use())
		of := ""
		if k.Signature {
			of = "signature of "
		}
		for _, img := range k.Images {
			fmt.Fprintf(&b, "    %s%s, used by %s\n", of, text.Line(img.Ref), img.ConsumerNames(maxConsumers))
		}
	}
	for _, u := range l.Unknown {
		fmt.Fprintf(&b, "Not known: %s\n", text.Line(u))
	}
	return b.String()
}
