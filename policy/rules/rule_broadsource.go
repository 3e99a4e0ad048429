package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// BroadSource: a source that is a whole registry, or a wildcard, covers more than its author
// may have in mind: the platform's images live beside the applications'. The finding says how
// much, and names narrower sources that cover what the mirror holds and nothing that it
// lacks.
func broadSource(p plan.ChangePlan, facts policy.Facts) []policy.Finding {
	var findings []policy.Finding
	by := byEntry(p.Plan)
	for _, e := range p.Added {
		if strings.Contains(e.Source, "/") || !e.HasMirror() {
			continue
		}
		c := coverageOf(by()[e.Source])
		if len(c.repositories) < 2 {
			continue
		}
		f := policy.Finding{
			Severity: policy.Warn, Statement: policy.StatementOf(e),
			Reason: fmt.Sprintf("%s covers %s of %s in %s", e.Source, text.Count(c.images, "image"),
				text.Plural(len(c.repositories), "repository", "repositories"), text.Count(len(c.namespaces), "namespace")),
			Detail: []string{mirrors.NameOf(e.Object), "namespaces: " + cmp.Or(text.Names(c.namespaces, plan.MaxNamed), "none")},
		}
		if narrow := narrowed(by()[e.Source], facts, e); len(narrow) > 0 && narrow[0].Source != e.Source {
			sources := convert.Each(narrow, func(e mirrors.Entry) string { return e.Source })
			f.Detail = append(f.Detail, "narrower sources that the mirror holds completely: "+text.Names(sources, plan.MaxNamed))
			f.Remedy = []string{"name only what is mirrored; check -o narrowed prints such an object"}
		}
		findings = append(findings, f)
	}
	return findings
}

// A coverage is the extent of what an entry decides about.
type coverage struct {
	images                   int
	repositories, namespaces []string // sorted
}

// byEntry returns the reroutes of p by the source that their new routes come from, when first asked: there may be many of both.
func byEntry(p plan.Plan) func() map[string][]*evidence.Reroute {
	return sync.OnceValue(func() map[string][]*evidence.Reroute {
		by := map[string][]*evidence.Reroute{}
		for i := range p.Reroutes {
			r := &p.Reroutes[i]
			by[r.After.Entry] = append(by[r.After.Entry], r)
		}
		return by
	})
}

// coverageOf counts the images of the reroutes from one source.
func coverageOf(reroutes []*evidence.Reroute) coverage {
	repositories, namespaces := map[string]bool{}, map[string]bool{}
	var c coverage
	last := ""
	for _, r := range reroutes {
		if r.Image.Ref != last {
			c.images++
		}
		last = r.Image.Ref
		repositories[policy.Repository(r.Image.Ref)] = true
		for _, consumer := range r.Image.Consumers {
			if consumer.Namespace != "" {
				namespaces[consumer.Namespace] = true
			}
		}
	}
	c.repositories, c.namespaces = slices.Sorted(maps.Keys(repositories)), slices.Sorted(maps.Keys(namespaces))
	return c
}

// Narrow returns the smallest list of entries to replace e that covers every image of the
// plan that e's kind serves and a mirror of e is known to hold, and no other. They are sorted
// by source. It is e alone if e covers nothing that is missing, and empty if the mirrors hold
// nothing.
//
// An entry can be no narrower than a repository: where a mirror holds one tag of a
// repository and lacks another, the repository is left out.
func Narrow(p plan.Plan, facts policy.Facts, e mirrors.Entry) []mirrors.Entry {
	return narrowed(byEntry(p)()[e.Source], facts, e)
}

func narrowed(reroutes []*evidence.Reroute, facts policy.Facts, e mirrors.Entry) []mirrors.Entry {
	root := &scope{}
	for _, r := range reroutes {
		if policy.ServesPullType(e, r.Image.Ref) {
			root.insert(strings.Split(policy.Repository(r.Image.Ref), "/"), evidence.WeighedRoute{Route: &r.After, Facts: facts.On(&r.After)}.IsAtMirror())
		}
	}
	if root.held > 0 && root.lacking == 0 {
		return []mirrors.Entry{e}
	}
	return convert.Each(root.complete(nil), func(source string) mirrors.Entry { return narrowTo(e, source) })
}

// A scope is a node of the tree of repositories: a host, a namespace or a
// repository.
type scope struct {
	children      map[string]*scope
	held, lacking int // images at and below
}

func (s *scope) insert(path []string, held bool) {
	if held {
		s.held++
	} else {
		s.lacking++
	}
	if len(path) == 0 {
		return
	}
	if s.children == nil {
		s.children = map[string]*scope{}
	}
	child := s.children[path[0]]
	if child == nil {
		child = &scope{}
		s.children[path[0]] = child
	}
	child.insert(path[1:], held)
}

// complete returns the widest scopes below s that lack nothing, sorted.
func (s *scope) complete(path []string) []string {
	if s.lacking == 0 && len(path) > 0 {
		return []string{strings.Join(path, "/")}
	}
	var scopes []string
	for _, name := range slices.Sorted(maps.Keys(s.children)) {
		scopes = append(scopes, s.children[name].complete(append(slices.Clone(path), name))...)
	}
	return scopes
}

// narrowTo returns e for a source below its own, with the mirrors where the runtime looks for that
// part: it adds the rest of the name to the location.
func narrowTo(e mirrors.Entry, source string) mirrors.Entry {
	rest := strings.TrimPrefix(source, e.Source)
	if suffix, ok := strings.CutPrefix(e.Source, "*"); ok {
		rest = source[strings.Index(source, suffix)+len(suffix):]
	}
	narrow := mirrors.Entry{Object: e.Object, Source: source, Policy: e.Policy}
	for _, m := range e.Mirrors {
		if m != e.Source {
			narrow.Mirrors = append(narrow.Mirrors, m+rest)
		}
	}
	return narrow
}
