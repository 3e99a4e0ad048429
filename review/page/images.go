package page

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxNamed is how many namespaces or rules of an image are named in its row, maxSearched how many
	// of them the filter finds.
	maxNamed, maxSearched = 3, 40
	// maxOption is the longest value that a filter offers: that of a host.
	maxOption = 253
	// maxOptions is how many values a filter offers, maxNamespaces how many have a bar.
	maxOptions, maxNamespaces = 500, 200
)

// An imageRow is an image whose route changes.
type imageRow struct {
	Image, Result, Kind string
	// Served is the place that nodes would get it from, "" if there is none.
	Served string
	// registries are those of the places that nodes ask.
	registries, namespaces, rules []string
	// hosts are the registries that the filter offers.
	hosts              []string
	Platforms, Lacking []string
	// Signature sums up what nodes make of its signatures, "" where none are looked for.
	Signature string
	// Brief is set where there are many rows.
	Brief bool
}

// resultKinds has the kind of each result; resultOrder puts the worst first.
var (
	resultKinds = map[string]string{"verified": "good", "unverified": "unknown", "assumed": "unknown", "fails": "bad", "fails already": "warn"}
	resultOrder = []string{"fails", "unverified", "assumed", "fails already", "verified"}
)

func imageRows(doc v1alpha1.Review) []imageRow {
	rules := map[string][]string{}
	for _, f := range doc.Findings {
		if f.Image != "" && !slices.Contains(rules[f.Image], f.Rule) {
			rules[f.Image] = append(rules[f.Image], f.Rule)
		}
	}
	all := make([]imageRow, 0, len(doc.Rerouted))
	for i := range doc.Rerouted {
		r := &doc.Rerouted[i]
		if n := len(all); n > 0 && all[n-1].Image == r.Image { // the routes on the nodes of other pools
			continue
		}
		row := imageRow{Image: r.Image, Result: r.Result, Kind: resultKinds[r.Result], rules: rules[r.Image], namespaces: namespacesOf(r.Consumers)}
		row.addRoute(&r.After)
		all = append(all, row)
	}
	slices.SortStableFunc(all, func(a, b imageRow) int {
		return cmp.Compare(slices.Index(resultOrder, a.Result), slices.Index(resultOrder, b.Result))
	})
	for i := range all {
		all[i].Brief = len(all) > manyImages
	}
	return all
}

func (r *imageRow) addRoute(route *v1alpha1.Route) {
	for i := range route.Sources {
		s := &route.Sources[i]
		if s.Blocked || s.Refused {
			continue
		}
		if host := registryOf(s.Reference); !slices.Contains(r.registries, host) {
			r.registries = append(r.registries, host)
		}
		if r.Served == "" && s.Fact != nil && s.Fact.Presence == "present" && r.Result != "fails" && r.Result != "fails already" {
			r.Served, r.Platforms, r.Lacking = s.Reference, s.Fact.Platforms, s.Fact.Lacking
			r.Signature = signatureText(s)
		}
	}
}

// signatureText sums up the signatures at the place that serves an image: one that is not accepted
// counts for all. Signatures that were not looked up are only said to be required.
func signatureText(s *v1alpha1.Source) string { return signaturesText(s.Signatures, s.Required != nil) }

func signaturesText(signatures []v1alpha1.Signature, required bool) string {
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
	var all []string
	seen := map[string]bool{}
	for _, c := range consumers {
		if ns := cmp.Or(c.Namespace, "cluster"); !seen[ns] {
			seen[ns] = true
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	return all
}

// Reference returns the image as the row shows it.
func (r *imageRow) Reference() string {
	if r.Brief {
		return text.ShortDigest(r.Image)
	}
	return r.Image
}

// From returns where it comes from as the row shows it.
func (r *imageRow) From() string {
	if r.Brief {
		return registryOf(r.Served)
	}
	return text.ShortDigest(r.Served)
}

// Namespaces, Rules and Platform return what the row names.
func (r *imageRow) Namespaces() string { return text.Names(r.namespaces, maxNamed) }

// Rules returns those that object to the image.
func (r *imageRow) Rules() string { return text.Names(r.rules, maxNamed) }

// Platform returns the platforms that get the image, and those that do not.
func (r *imageRow) Platform() string {
	of := func(platforms []string) string {
		return strings.ReplaceAll(text.Names(platforms, maxNamed), "linux/", "")
	}
	switch {
	case len(r.Lacking) > 0:
		return "lacks " + of(r.Lacking)
	case r.Brief:
		return ""
	default:
		return of(r.Platforms)
	}
}

// Registries returns the numbers, among the filter's, of those of the places that nodes ask; "" where the
// row shows them.
func (r *imageRow) Registries() string {
	shown := []string{registryOf(r.Image), registryOf(r.Served)}
	if !slices.ContainsFunc(r.registries, func(host string) bool { return !slices.Contains(shown, host) }) {
		return ""
	}
	return r.hostNumbers()
}

// hostNumbers returns the numbers of registries among those that the filter offers.
func (r *imageRow) hostNumbers() string {
	var numbers []string
	for _, host := range r.registries[:min(len(r.registries), maxSearched)] {
		if n := slices.Index(r.hosts, host); n >= 0 {
			numbers = append(numbers, strconv.Itoa(n))
		}
	}
	return strings.Join(numbers, " ")
}

// More returns the namespaces that the row does not name, for the filter.
func (r *imageRow) More() string {
	if len(r.namespaces) <= maxNamed {
		return ""
	}
	return strings.Join(r.namespaces[maxNamed:min(len(r.namespaces), maxSearched)], " ")
}

// A rowList is a table whose rows are rendered already.
type rowList struct {
	Rows template.HTML
	// Shown of All rows have found room. Left says what was left out, and Whole where it is.
	Shown, All int
	Left       string
	Whole      string
	Brief      bool
	Filters    []filter
	Signatures bool
	// What says which images they are.
	What string
}

func (r *reviewPage) imageList(room int) (rowList, error) {
	l := rowList{All: len(r.images), Whole: r.Context.Whole, Brief: len(r.images) > manyImages, Filters: r.filters(), What: r.title("whose route changes", "that mirror objects cover")}
	if at := slices.IndexFunc(l.Filters, func(f filter) bool { return f.Name == "registry" }); at >= 0 {
		for i := range r.images {
			r.images[i].hosts = l.Filters[at].Values
		}
	}
	l.Signatures = slices.ContainsFunc(r.images, func(i imageRow) bool { return i.Signature != "" })
	var err error
	if l.Rows, l.Shown, err = rows("image.html", r.images, room); err != nil {
		return l, err
	}
	l.Left = leftOut(r.images[l.Shown:])
	return l, nil
}

// leftOut counts images by their results.
func leftOut(images []imageRow) string {
	counts := map[string]int{}
	for i := range images {
		counts[images[i].Result]++
	}
	var parts []string
	for _, result := range resultOrder {
		if n := counts[result]; n > 0 {
			parts = append(parts, text.Number(n)+" "+resultWords[result])
		}
	}
	return strings.Join(parts, ", ")
}

var resultWords = map[string]string{"verified": "verified", "unverified": "not determined", "assumed": "assumed", "fails": "fails", "fails already": "fails already"}

// Word returns the result for people.
func (r *imageRow) Word() string { return resultWords[r.Result] }

// filters are those of the images: by result, namespace, rule and registry.
func (r *reviewPage) filters() []filter {
	values := map[string]map[string]bool{"namespace": {}, "rule": {}, "registry": {}, "result": {}}
	for i := range r.images {
		row := &r.images[i]
		for name, of := range map[string][]string{"namespace": row.namespaces, "rule": row.rules, "registry": row.registries, "result": {cmp.Or(resultWords[row.Result], row.Result)}} {
			for _, v := range of {
				if len(v) <= maxOption {
					values[name][v] = true
				}
			}
		}
	}
	var all []filter
	for _, name := range []string{"result", "namespace", "rule", "registry"} {
		if sorted := sortedKeys(values[name]); len(sorted) > 0 {
			all = append(all, filter{Name: name, Label: text.Capital(name), Values: sorted[:min(len(sorted), maxOptions)]})
		}
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A namespaceRow counts the images of a namespace by their results.
type namespaceRow struct {
	Name                                       string
	Total, Verified, Fails, Unverified, Before int
	// Bars are the parts of the bar, in percent.
	Bars []bar
}

// A countLink is a number of images, with the filter that shows their rows.
type countLink struct {
	N      int
	Filter string
}

// Counts are those of the columns: fails, not determined, fails already, verified.
func (n namespaceRow) Counts() []countLink {
	link := func(count int, result string) countLink {
		return countLink{count, query("namespace", n.Name, "result", resultWords[result])}
	}
	return []countLink{link(n.Fails, "fails"), link(n.Unverified, "unverified"), link(n.Before, "fails already"), link(n.Verified, "verified")}
}

// A bar is a part of a bar, from X on.
type bar struct {
	Kind string
	X, W float64
}

// A namespaceList is the first of the namespaces, those with the most failures first.
type namespaceList struct {
	All  []namespaceRow
	Left int
}

// Shown returns those that have a row.
func (l namespaceList) Shown() []namespaceRow { return l.All[:len(l.All)-l.Left] }

func namespaceRows(images []imageRow) namespaceList {
	byName := map[string]*namespaceRow{}
	for i := range images {
		for _, ns := range images[i].namespaces {
			if byName[ns] == nil {
				byName[ns] = &namespaceRow{Name: ns}
			}
			byName[ns].add(images[i].Result)
		}
	}
	var l namespaceList
	for _, name := range sortedKeys(byName) {
		row := byName[name]
		row.Bars = bars(row.Total, []int{row.Fails, row.Unverified, row.Before, row.Verified}, []string{"bad", "unknown", "warn", "good"})
		l.All = append(l.All, *row)
	}
	slices.SortStableFunc(l.All, func(a, b namespaceRow) int {
		return cmp.Or(cmp.Compare(b.Fails, a.Fails), cmp.Compare(b.Unverified, a.Unverified), cmp.Compare(b.Total, a.Total))
	})
	l.Left = max(0, len(l.All)-maxNamespaces)
	return l
}

func (n *namespaceRow) add(result string) {
	n.Total++
	switch result {
	case "verified":
		n.Verified++
	case "fails":
		n.Fails++
	case "fails already":
		n.Before++
	default:
		n.Unverified++
	}
}

func bars(total int, counts []int, kinds []string) []bar {
	var all []bar
	x := 0.0
	for i, n := range counts {
		if n == 0 {
			continue
		}
		w := 100 * float64(n) / float64(total)
		all = append(all, bar{kinds[i], x, w})
		x += w
	}
	return all
}
