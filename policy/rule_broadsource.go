package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// BroadSource: a source that is a whole registry, or a wildcard, covers more than its author
// may have in mind: the platform's images live beside the applications'. The finding says how
// much, and names narrower sources that cover what the mirror holds and nothing that it
// lacks.
func broadSource(p ChangePlan, facts Facts) []Finding {
	var findings []Finding
	for _, e := range p.Added {
		if strings.Contains(e.Source, "/") || !e.HasMirror() {
			continue
		}
		c := p.coverage(e)
		if len(c.repositories) < 2 {
			continue
		}
		f := Finding{
			Severity: Warn, Statement: statementOf(e),
			Reason: fmt.Sprintf("%s covers %s of %s in %s", e.Source, text.Count(c.images, "image"),
				text.Plural(len(c.repositories), "repository", "repositories"), text.Count(len(c.namespaces), "namespace")),
			Detail: []string{mirrors.NameOf(e.Object), "namespaces: " + cmp.Or(text.Names(c.namespaces, maxNamed), "none")},
		}
		if narrow := Narrow(p.Plan, facts, e); len(narrow) > 0 && narrow[0].Source != e.Source {
			f.Detail = append(f.Detail, "narrower sources that the mirror holds completely: "+text.Names(sourcesOf(narrow), maxNamed))
			f.Remedy = []string{"name only what is mirrored; check -o narrowed prints such an object"}
		}
		findings = append(findings, f)
	}
	return findings
}

// maxNamed is how many names a line of a finding holds.
const maxNamed = 8

// A coverage is the extent of what an entry decides about.
type coverage struct {
	images                   int
	repositories, namespaces []string // sorted
}

// coverage counts the images whose new route comes from e's source.
func (p Plan) coverage(e mirrors.Entry) coverage {
	repositories, namespaces := map[string]bool{}, map[string]bool{}
	var c coverage
	last := ""
	for _, r := range p.Reroutes {
		if r.After.Entry != e.Source {
			continue
		}
		if r.Image.Ref != last {
			c.images++
		}
		last = r.Image.Ref
		repositories[repository(r.Image.Ref)] = true
		for _, consumer := range r.Image.Consumers {
			if consumer.Namespace != "" {
				namespaces[consumer.Namespace] = true
			}
		}
	}
	c.repositories, c.namespaces = slices.Sorted(maps.Keys(repositories)), slices.Sorted(maps.Keys(namespaces))
	return c
}

func sourcesOf(entries []mirrors.Entry) []string {
	return convert.Each(entries, func(e mirrors.Entry) string { return e.Source })
}
