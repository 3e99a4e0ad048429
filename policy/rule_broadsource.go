package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// BroadSource: a source that is a whole registry, or a wildcard, covers more than
// whoever wrote it thinks of: the platform's images live beside the applications'.
// The finding says how much, and names narrower sources that cover what the
// mirror holds and nothing that it lacks.
func broadSource(p Plan, facts Facts) []Finding {
	var findings []Finding
	for _, e := range p.Added {
		if strings.Contains(e.Source, "/") || !e.HasMirror() {
			continue
		}
		c := p.coverage(e, facts)
		if len(c.repositories) < 2 {
			continue
		}
		f := Finding{
			Severity: Warn,
			Reason: fmt.Sprintf("%s covers %s of %s in %s", e.Source, count(c.images, "image"),
				plural(len(c.repositories), "repository", "repositories"), count(len(c.namespaces), "namespace")),
			Detail: []string{mirrors.NameOf(e.Object), "namespaces: " + list(c.namespaces, maxNamed)},
		}
		if narrow := Narrow(p, facts, e); len(narrow) > 0 && narrow[0].Source != e.Source {
			f.Detail = append(f.Detail, "narrower sources that the mirror holds completely: "+list(sourcesOf(narrow), maxNamed))
			f.Remedy = []string{"name what is mirrored: check -o narrowed prints the object"}
		}
		findings = append(findings, f)
	}
	return findings
}

// maxNamed is how many names a line of a finding holds.
const maxNamed = 8

// A coverage is what an entry decides about.
type coverage struct {
	images                   int
	repositories, namespaces []string // sorted
}

// coverage counts the images whose new route comes from e's source.
func (p Plan) coverage(e mirrors.Entry, _ Facts) coverage {
	repositories, namespaces := map[string]bool{}, map[string]bool{}
	var c coverage
	for _, i := range p.Reroutes {
		if i.After.Entry != e.Source {
			continue
		}
		c.images++
		repositories[repository(i.Image.Ref)] = true
		for _, u := range i.Image.Consumers {
			if u.Namespace != "" {
				namespaces[u.Namespace] = true
			}
		}
	}
	c.repositories, c.namespaces = sortedKeys(repositories), sortedKeys(namespaces)
	return c
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sourcesOf(entries []mirrors.Entry) []string {
	sources := make([]string, len(entries))
	for i, e := range entries {
		sources[i] = e.Source
	}
	return sources
}

// list names at most limit of names.
func list(names []string, limit int) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}

// plural returns "1 repository", "2 repositories".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}
