package mirrors

import (
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// ChangedScopes cover the references for which two tables may have different routes. Short names
// are always among them: the repository that one stands for depends on the table.
type ChangedScopes struct {
	// Everything is set if the routes of any reference may differ, because nodes treat
	// references that no entry covers differently.
	Everything bool
	// Scopes, sorted, cover the repositories whose routes may differ: a host, a repository, a
	// namespace of repositories, or "*.example.com". Other repositories have the same route in both
	// tables.
	Scopes []string
}

// CompareScopes compares the contents of two tables. It takes time proportional to their
// entries, whatever the number of references.
//
// A route depends on the entry that covers the reference and, since nodes refuse a place that another
// entry blocks, on those that cover the places of the route; likewise on what registries.d says of
// these places. So the scopes are those of differing entries, of entries with a place that such an
// entry covers, and of differing policies.
func CompareScopes(from, to *Table) ChangedScopes {
	policies, everything := from.trust.DifferingScopes(to.trust)
	attached, everywhere := from.trust.Attachments.DifferingScopes(&to.trust.Attachments)
	if everything || everywhere {
		return ChangedScopes{Everything: true}
	}
	changed := differingEntries(from.conf.Registries, to.conf.Registries)
	for scope := range attached {
		changed[repositoryOf(scope)] = true
	}
	scopes := maps.Clone(changed)
	index := newScopes(changed)
	for _, registries := range [][]sysregistriesv2.Registry{from.conf.Registries, to.conf.Registries} {
		for i := range registries {
			if r := &registries[i]; !scopes[r.Prefix] && index.mayCoverPlaceOf(r) {
				scopes[r.Prefix] = true
			}
		}
	}
	for _, scope := range policies {
		scopes[repositoryOf(scope)] = true
	}
	return ChangedScopes{Scopes: slices.Sorted(maps.Keys(scopes))}
}

// differingEntries returns the scopes whose entries differ between two lists, or are missing
// from one. Both lists are sorted by scope, and have each scope once.
func differingEntries(a, b []sysregistriesv2.Registry) map[string]bool {
	scopes := map[string]bool{}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Prefix < b[0].Prefix:
			scopes[a[0].Prefix], a = true, a[1:]
		case len(a) == 0 || b[0].Prefix < a[0].Prefix:
			scopes[b[0].Prefix], b = true, b[1:]
		default:
			if !SameEntry(&a[0], &b[0]) {
				scopes[a[0].Prefix] = true
			}
			a, b = a[1:], b[1:]
		}
	}
	return scopes
}

// SameEntry reports whether nodes do the same by two entries of one prefix. It is reflect.DeepEqual, except that an empty list of mirrors is
// none.
func SameEntry(a, b *sysregistriesv2.Registry) bool {
	return a.Endpoint == b.Endpoint && a.Blocked == b.Blocked && a.MirrorByDigestOnly == b.MirrorByDigestOnly &&
		slices.Equal(a.Mirrors, b.Mirrors)
}

// scopes are a set of scopes in which those that may cover a place are found fast.
type scopes struct {
	plain     map[string]bool
	sorted    []string // the plain ones
	wildcards []string // without their "*"
}

func newScopes(set map[string]bool) scopes {
	s := scopes{plain: map[string]bool{}}
	for scope := range set {
		if suffix, ok := strings.CutPrefix(scope, "*"); ok {
			s.wildcards = append(s.wildcards, suffix)
			continue
		}
		s.plain[scope] = true
		s.sorted = append(s.sorted, scope)
	}
	slices.Sort(s.sorted)
	return s
}

// mayCoverPlaceOf reports whether a reference that r covers may lead to a place that one
// of s covers. The reference's own place does not count.
func (s scopes) mayCoverPlaceOf(r *sysregistriesv2.Registry) bool {
	if len(s.sorted)+len(s.wildcards) == 0 {
		return false
	}
	if r.Location != "" && r.Location != r.Prefix && s.mayCoverBelow(r.Location) {
		return true
	}
	return slices.ContainsFunc(r.Mirrors, func(m sysregistriesv2.Endpoint) bool { return s.mayCoverBelow(m.Location) })
}

// mayCoverBelow reports whether one of s may cover location with anything behind it: it
// covers location itself, or something that begins with it.
func (s scopes) mayCoverBelow(location string) bool {
	for end := len(location); end > 0; end = strings.LastIndexAny(location[:end], "/:@") {
		if s.plain[location[:end]] {
			return true
		}
	}
	if i, _ := slices.BinarySearch(s.sorted, location); i < len(s.sorted) && strings.HasPrefix(s.sorted[i], location) {
		return true
	}
	return slices.ContainsFunc(s.wildcards, func(suffix string) bool { return strings.Contains(location, suffix) })
}
