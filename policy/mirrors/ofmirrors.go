package mirrors

import (
	"iter"
	"slices"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// TagMirrors returns the mirrors at which nodes look for tags, each after the scope of its entry.
func (t *Table) TagMirrors() iter.Seq2[string, string] {
	return func(yield func(scope, mirror string) bool) {
		for i := range t.conf.Registries {
			r := &t.conf.Registries[i]
			for _, m := range r.Mirrors {
				if m.PullFromMirror != sysregistriesv2.MirrorByDigestOnly && !r.MirrorByDigestOnly && !yield(r.Prefix, m.Location) {
					return
				}
			}
		}
	}
}

// WithoutMirrors returns the routes of the same nodes if nothing led them to mirrors. The registry lists of s, the places where
// short names are looked for, and the required signatures stay.
func (t *Table) WithoutMirrors(s Set) *Table {
	s.Objects = nil
	blocked := s.blockedRegistries()
	bare := *t
	bare.conf.Registries = nil
	for _, r := range t.conf.Registries {
		isScope := func(listed string) bool { return sameScope(listed, r.Prefix) }
		r.Blocked = r.Blocked && (len(r.Mirrors) == 0 || slices.ContainsFunc(blocked, isScope)) // else for want of NeverContactSource
		r.Mirrors, r.MirrorByDigestOnly = nil, false
		if r.Location != "" {
			r.Location = r.Prefix
		}
		if r.Blocked || r.Insecure {
			bare.conf.Registries = append(bare.conf.Registries, r)
		}
	}
	bare.index = newIndex(bare.conf.Registries)
	return &bare
}
