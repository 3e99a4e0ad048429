package mirrors

import (
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// An index finds the entry that covers a name. Where sysregistriesv2 compares a
// name with every prefix, it looks up the few prefixes a name has, so the time
// depends on the length of the name and not on the number of sources.
type index struct {
	plain    map[string]*sysregistriesv2.Registry
	wildcard map[string]*sysregistriesv2.Registry // by the prefix without its "*"
	blocks   bool                                 // whether one of the entries is blocked
	// exactHost is set where a host does not cover itself with a port.
	exactHost bool
}

func newIndex(regs []sysregistriesv2.Registry) index {
	ix := index{
		plain:    make(map[string]*sysregistriesv2.Registry, len(regs)),
		wildcard: map[string]*sysregistriesv2.Registry{},
	}
	for i := range regs {
		r := &regs[i]
		ix.blocks = ix.blocks || r.Blocked
		if suffix, ok := strings.CutPrefix(r.Prefix, "*"); ok && strings.HasPrefix(suffix, ".") {
			ix.wildcard[suffix] = r
		} else {
			ix.plain[r.Prefix] = r
		}
	}
	return ix
}

// entry returns the entry for exactly this scope, nil if there is none.
func (ix index) entry(scope string) *sysregistriesv2.Registry {
	if suffix, ok := strings.CutPrefix(scope, "*"); ok {
		return ix.wildcard[suffix]
	}
	return ix.plain[scope]
}

// find returns the entry with the longest prefix that covers name, a repository
// with its host, or nil. At equal length the wildcard wins: sysregistriesv2 keeps
// its entries sorted, "*" comes before every letter, and the first one stands.
func (ix index) find(name string) *sysregistriesv2.Registry {
	plain := ix.findPlain(name)
	wild := ix.findWildcard(name)
	switch {
	case wild == nil:
		return plain
	case plain == nil || len(wild.Prefix) >= len(plain.Prefix):
		return wild
	default:
		return plain
	}
}

// findPlain cuts name at each "/" and ":" from the right. A ":" in a name stands
// before a port, so "example.com" covers "example.com:5000/x": unintended by
// sysregistriesv2, says its comment, but what nodes do. MCO's notion of nesting
// differs here; the runtime decides.
func (ix index) findPlain(name string) *sysregistriesv2.Registry {
	for end := len(name); end > 0; {
		if r := ix.plain[name[:end]]; r != nil {
			return r
		}
		if ix.exactHost {
			end = strings.LastIndexByte(name[:end], '/')
		} else {
			end = lastSeparator(name[:end])
		}
	}
	return nil
}

// lastSeparator is strings.LastIndexAny(s, "/:@") without the table of characters that this
// makes each time.
func lastSeparator(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if c := s[i]; c == '/' || c == ':' || c == '@' {
			return i
		}
	}
	return -1
}

// findWildcard cuts the host of name at each "." from the left. As in
// sysregistriesv2, only the first occurrence of the suffix in name counts: "*.a.b" does not cover
// "x.a.b.a.b".
func (ix index) findWildcard(name string) *sysregistriesv2.Registry {
	if len(ix.wildcard) == 0 {
		return nil
	}
	host := name
	if i := strings.IndexAny(name, "/:@"); i >= 0 {
		host = name[:i]
	}
	for i := strings.IndexByte(host, '.'); i >= 0; {
		suffix := host[i:]
		if r := ix.wildcard[suffix]; r != nil && strings.Index(name, suffix) == i {
			return r
		}
		next := strings.IndexByte(host[i+1:], '.')
		if next < 0 {
			return nil
		}
		i += 1 + next
	}
	return nil
}
