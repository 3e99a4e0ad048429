package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// manyImages is a number of images from which on their rows have short digests, and no more than
	// the registry of the place that serves them.
	manyImages = 1000
	// maxNamed is how many namespaces or rules of an image are named in its row.
	maxNamed = 3
	// maxNamespaces is how many namespaces have a bar.
	maxNamespaces = 200
)

// A result is the result of an image for people, with its tone; figure says it of several images. The worst comes first.
type result struct {
	name, word, figure string
	tone               answer.Tone
}

var results = []result{
	{"fails", "fails", "fail", answer.Bad},
	{"unverified", "not determined", "not determined", answer.Unknown},
	{"assumed", "assumed", "assumed", answer.Unknown},
	{"fails already", "fails already", "fail already", answer.Caution},
	{"verified", "verified", "verified", answer.Good},
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
		if n := len(all); n > 0 && all[n-1].ref == r.Image { // on the nodes of other pools, in a namespace with policies of its own, or at a builder
			all[n-1].namespaces = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all[n-1].namespaces, namespacesOf(r.Consumers)))))
			continue
		}
		of := slices.IndexFunc(results, func(o result) bool { return o.name == r.Result })
		img := image{ref: r.Image, result: max(of, 0), rules: rules[r.Image], namespaces: namespacesOf(r.Consumers)}
		at := slices.IndexFunc(r.After.Sources, func(s v1alpha1.Source) bool { return stateOf(&s) == stateFound })
		if at >= 0 && r.Result != "fails" && r.Result != "fails already" {
			s := &r.After.Sources[at]
			img.served, img.signature = s.Reference, Signature(s.Signatures, s.Required != nil)
		}
		all = append(all, img)
	}
	slices.SortStableFunc(all, func(a, b image) int { return cmp.Compare(a.result, b.result) })
	return all
}

// Signature sums up the signatures at the place that serves an image: one that is not accepted
// counts for all. Signatures that were not looked up are only said to be required.
func Signature(signatures []v1alpha1.Signature, required bool) string {
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
func imageTable(images []image, what string) answer.Table {
	brief := len(images) > manyImages
	t := answer.Table{ID: "image-rows", Title: "All " + text.Count(len(images), "image") + " " + what + ", the worst first", Head: []string{"Result", "Image", "Comes from", "Rules", "Namespaces"}}
	if brief {
		t.Title += "; digests are cut, and of the place that serves it only the registry is shown"
	}
	signed := slices.ContainsFunc(images, func(i image) bool { return i.signature != "" })
	if signed {
		t.Head = append(t.Head, "Signature")
	}
	for i := range images {
		img := &images[i]
		ref, from := shownRefs(img.ref, img.served, brief)
		row := answer.Row(results[img.result].word, ref, from, text.Names(img.rules, maxNamed), text.Names(img.namespaces, maxNamed))
		row[0][0].Tone = results[img.result].tone
		if signed {
			row = append(row, answer.Say(img.signature))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
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
func namespaceTable(images []image) (_ answer.Table, namespaces int) {
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
	t := answer.Table{Title: "Images by namespace and result", Head: []string{"Namespace"}}
	all := countsOf(images)
	for i, r := range results {
		if all[i] > 0 {
			t.Head = append(t.Head, text.Capital(r.figure))
		}
	}
	t.Head = append(t.Head, "Share")
	for _, name := range names[:min(len(names), maxNamespaces)] {
		row, share := answer.Row(name), answer.Span{}
		for i, n := range counts[name] {
			if share.Bar = append(share.Bar, answer.Share{N: n, Tone: results[i].tone}); all[i] > 0 {
				row = append(row, answer.Say(text.Number(n)))
			}
		}
		t.Rows = append(t.Rows, append(row, answer.Line{share}))
	}
	if more := len(names) - len(t.Rows); more > 0 {
		t.Title += "; " + text.Count(more, "more namespace") + " with fewer failures are left out"
	}
	return t, len(names)
}
