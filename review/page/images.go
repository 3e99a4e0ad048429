package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// manyImages is a number of images from which on their rows have short digests, and no more than
	// the registry of the place that serves them.
	manyImages = 1000
	// imagesID is the section with the list of images, which has what room the others leave.
	imagesID = "images"
	// maxNamespaces is how many namespaces have a bar.
	maxNamespaces = 200
)

// A result is the result of an image for people, with its kind; figure says it of several images. The worst comes first.
type result struct{ name, word, figure, kind string }

var results = []result{
	{"fails", "fails", "fail", "bad"},
	{"unverified", "not determined", "not determined", "unknown"},
	{"assumed", "assumed", "assumed", "unknown"},
	{"fails already", "fails already", "fail already", "warn"},
	{"verified", "verified", "verified", "good"},
}

// An image is one whose route changes.
type image struct {
	ref    string
	result int // among results
	// served is the place that nodes would get it from, "" if there is none.
	served            string
	namespaces, rules []string
	// signature sums up what nodes make of its signatures, "" where none are looked for.
	signature string
}

// imagesOf returns the images of a review, the worst first.
func imagesOf(doc *v1alpha1.Review) []image {
	rules := map[string][]string{}
	for _, f := range doc.Findings {
		if f.Image != "" && !slices.Contains(rules[f.Image], f.Rule) {
			rules[f.Image] = append(rules[f.Image], f.Rule)
		}
	}
	var all []image
	for i := range doc.Rerouted {
		r := &doc.Rerouted[i]
		if n := len(all); n > 0 && all[n-1].ref == r.Image { // the routes on the nodes of other pools
			continue
		}
		of := slices.IndexFunc(results, func(o result) bool { return o.name == r.Result })
		img := image{ref: r.Image, result: max(of, 0), rules: rules[r.Image], namespaces: namespacesOf(r.Consumers)}
		at := slices.IndexFunc(r.After.Sources, func(s v1alpha1.Source) bool { return stateOf(&s) == stateFound })
		if at >= 0 && r.Result != "fails" && r.Result != "fails already" {
			s := &r.After.Sources[at]
			img.served, img.signature = s.Reference, signatureText(s.Signatures, s.Required != nil)
		}
		all = append(all, img)
	}
	slices.SortStableFunc(all, func(a, b image) int { return cmp.Compare(a.result, b.result) })
	return all
}

// signatureText sums up the signatures at the place that serves an image: one that is not accepted
// counts for all. Signatures that were not looked up are only said to be required.
func signatureText(signatures []v1alpha1.Signature, required bool) string {
	state := ""
	for _, sig := range signatures {
		if state == "" || sig.State != "accepted" {
			state = sig.State
		}
	}
	if required && state == "" {
		return "required"
	}
	return state
}

// registryOf returns the host of a reference as written.
func registryOf(ref string) string {
	host, _, _ := strings.Cut(ref, "/")
	return host
}

func namespacesOf(consumers []v1alpha1.Consumer) []string {
	all := map[string]bool{}
	for _, c := range consumers {
		all[cmp.Or(c.Namespace, "cluster")] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// imageTable returns a table of images, which are what says, the worst first.
func imageTable(images []image, what string) part {
	brief := len(images) > manyImages
	caption := "All " + text.Count(len(images), "image") + " " + what + ", the worst first"
	if brief {
		caption += "; digests are cut, and of the place that serves it only the registry is shown"
	}
	heads := []string{"Result", "Image", "Comes from", "Rules", "Namespaces"}
	signed := slices.ContainsFunc(images, func(i image) bool { return i.signature != "" })
	if signed {
		heads = append(heads, "Signature")
	}
	rows := make([]row, len(images))
	for i := range images {
		img := &images[i]
		ref, from := shownRefs(img.ref, img.served, brief)
		rows[i] = cells(results[img.result].word, ref, from, text.Names(img.rules, maxNamed), text.Names(img.namespaces, maxNamed))
		rows[i].Cells[0].Kind = results[img.result].kind
		if signed {
			rows[i].Cells = append(rows[i].Cells, cell{Text: img.signature})
		}
	}
	return tableOf(table{ID: "image-rows", Caption: caption}, rows, heads...)
}

// shownRefs returns an image, and the place that serves it, as a row shows them.
func shownRefs(ref, served string, brief bool) (string, string) {
	if brief {
		return text.ShortDigest(ref), registryOf(served)
	}
	return ref, text.ShortDigest(served)
}

// countsOf counts images by their results.
func countsOf(images []image) []int {
	counts := make([]int, len(results))
	for i := range images {
		counts[images[i].result]++
	}
	return counts
}

// namespaceTable counts the images of each namespace by their results, those with the most failures first.
func namespaceTable(images []image) (_ part, namespaces int) {
	counts := map[string][]int{}
	for i := range images {
		for _, ns := range images[i].namespaces {
			if counts[ns] == nil {
				counts[ns] = make([]int, len(results))
			}
			counts[ns][images[i].result]++
		}
	}
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return slices.Compare(counts[b], counts[a]) })
	heads, kinds := []string{"Namespace"}, make([]string, len(results))
	all := countsOf(images)
	for i, r := range results {
		if kinds[i] = r.kind; all[i] > 0 {
			heads = append(heads, text.Capital(r.figure))
		}
	}
	var rows []row
	for _, name := range names[:min(len(names), maxNamespaces)] {
		r := cells(name)
		for i, n := range counts[name] {
			if all[i] > 0 {
				r.Cells = append(r.Cells, numberCell(n))
			}
		}
		r.Cells = append(r.Cells, cell{Bars: bars(counts[name], kinds...)})
		rows = append(rows, r)
	}
	caption := "Images by namespace and result"
	if more := len(names) - len(rows); more > 0 {
		caption += "; " + text.Count(more, "more namespace") + " with fewer failures are left out"
	}
	return tableOf(table{Caption: caption}, rows, append(heads, "Share")...), len(names)
}
