package whatif

import (
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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

// maxReported bounds the places that a report for people lists, beside those that break something.
const maxReported = 20

// subject names d, for people.
func (d Deletion) subject() string { return "Deleting what " + text.Line(d.List.name) + " lists" }

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

// elsewhere says how many items nothing here pulls, "" for none.
func (d Deletion) elsewhere() string {
	if d.Elsewhere == 0 {
		return ""
	}
	return text.Plural(d.Elsewhere, "item is", "items are") + " in repositories from which no node of this cluster pulls."
}

// Report returns the answer for people: the breakages in full, and then the images that nodes would
// miss at one place and find at another.
func (d Deletion) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", d.subject(), d.answer())
	d.reportFindings(&b)
	if lines := d.others(); len(lines) > 0 {
		fmt.Fprintf(&b, "\n%s:\n%s\n", pulledAsWell, strings.Join(text.First(lines, maxReported, "place"), "\n"))
	}
	if elsewhere := d.elsewhere(); elsewhere != "" {
		fmt.Fprintf(&b, "\n%s\n", elsewhere)
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

// pulledAsWell is the title of others.
const pulledAsWell = "Pulled from there as well, without breaking"

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
		lines = append(lines, fmt.Sprintf("- %s: item %d takes %s; place %d of the route of %s, %s; %s, used by %s", text.Line(n.Place.Ref), n.Item, n.Why, n.Number,
			text.Line(n.Image.Ref), text.Line(by), use, n.Image.ConsumerNames(maxConsumers)))
	}
	return lines
}

// WriteMarkdown writes d for a ticket or a merge request.
func (d Deletion) WriteMarkdown(w io.Writer) error {
	c := review.Comment{Outcome: "Breaks nothing", Subject: d.List.name, Lines: []string{"Deleting what it lists " + d.answer()}, Notes: d.Notes, Findings: d.Findings}
	switch {
	case !d.Allowed:
		c.Outcome = "Refused"
	case len(d.Findings) > 0:
		c.Outcome = "Breaks nothing, with warnings"
	}
	if elsewhere := d.elsewhere(); elsewhere != "" {
		c.Lines = append(c.Lines, elsewhere)
	}
	if lines := d.others(); len(lines) > 0 {
		c.Fold, c.Folded = pulledAsWell, text.First(lines, maxReported, "place")
	}
	return c.Write(w)
}

// WriteJUnit writes d as a JUnit test suite: a case for the list as a whole, and for each image that nodes look for in a
// repository from which something is deleted. A denial is a failure, everything else is output.
func (d Deletion) WriteJUnit(w io.Writer) error {
	found, loses := map[string][]policy.Finding{}, map[string]string{}
	for _, f := range d.Findings {
		found[f.Image.Ref] = append(found[f.Image.Ref], f)
	}
	for _, n := range d.Needed {
		loses[n.Image.Ref] += fmt.Sprintf("%s: %s takes %s\n", text.Line(n.Place.Ref), d.List.called(n.Item), n.Why)
	}
	whole := review.CaseOf("deletion", "the list", found[""], false)
	whole.Output = "It " + d.answer() + "\n" + whole.Output
	cases := []review.TestCase{whole}
	for _, ref := range d.Images {
		c := review.CaseOf("image", ref, found[ref], false)
		c.Output = loses[ref] + c.Output
		cases = append(cases, c)
	}
	return review.WriteTestCases(w, "mirrorset-guard: "+d.subject(), d.Took, cases)
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

// Lines returns l as references, a line each, below a comment that says what they are and lists the
// unknowns.
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
