package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Narrow returns the smallest list of entries to replace e that covers every image of the
// plan that e's kind serves and a mirror of e is known to hold, and no other. They are sorted
// by source. It is e alone if e covers nothing that is missing, and empty if the mirrors hold
// nothing.
//
// An entry can be no narrower than a repository: where a mirror holds one tag of a
// repository and lacks another, the repository is left out.
func Narrow(p Plan, facts Facts, e mirrors.Entry) []mirrors.Entry {
	root := &scope{}
	for i := range p.Reroutes {
		r := &p.Reroutes[i]
		if r.After.Entry == e.Source && servesPullType(e, r.Image.Ref) {
			root.insert(strings.Split(repository(r.Image.Ref), "/"), weighedRoute{Route: &r.After, facts: facts.on(&r.After)}.isAtMirror())
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
	var names []string
	for name := range s.children {
		names = append(names, name)
	}
	slices.Sort(names)
	var scopes []string
	for _, name := range names {
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
