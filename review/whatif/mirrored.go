package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// Of returns registries as they will be after the mirroring: r, but for what m copies. Only what is
// copied is assumed, and only content:
//
//   - The destination will have what the source has: its platforms, layers and digest, and nothing
//     else. Where the source does not answer, the result is unknown.
//   - Signatures are tags of their own. Where m does not copy them, they are not there.
//   - A mirror that refuses nodes will go on to do so, and so will one that does not answer.
//   - A tag will be moved to what its source has now, whatever it is at the mirror today.
func (m *Mapping) Of(r review.Registries) review.Registries { return mirrored{r, m} }

// TrustOf returns t with what it proposes as Of returns it.
func (m *Mapping) TrustOf(t review.Trust) review.Trust { return mirroredTrust{t, m} }

type mirroredTrust struct {
	review.Trust
	mapping *Mapping
}

// Propose implements review.Trust.
func (t mirroredTrust) Propose(cas map[string]string) (review.Registries, func()) {
	r, release := t.Trust.Propose(cas)
	return t.mapping.Of(r), release
}

// mirrored are registries after a mirroring.
type mirrored struct {
	review.Registries
	mapping *Mapping
}

var _ review.Registries = mirrored{}

// Presence implements review.Registries: it asks for locs and, where something will be copied to them, for the sources.
func (r mirrored) Presence(ctx context.Context, locs []mirrors.Location, fresh policy.Freshness) policy.Facts {
	facts := r.Registries.Presence(ctx, locs, fresh)
	origins := map[mirrors.Location]origin{}
	var open []mirrors.Location // by digest, in repositories to which tags are copied
	for _, l := range locs {
		to, version := split(l)
		c := r.mapping.to[to]
		if c == nil || !mayChange(l, facts.At(l)) {
			continue
		}
		if o, ok := r.mapping.from(c, version); ok {
			origins[l] = o
		} else if len(c.tagged) > 0 && strings.HasPrefix(version, "@") {
			open = append(open, l)
		}
	}
	maps.Copy(origins, r.tagged(ctx, open, fresh))
	if len(origins) == 0 {
		return facts
	}
	sources := r.Registries.Presence(ctx, placesOf(origins), fresh)
	facts = maps.Clone(facts)
	for l, o := range origins {
		facts[l] = r.mapping.after(l, o, facts.At(l), sources)
	}
	return facts
}

// split returns the repository of a place, in one spelling, and what of it.
func split(l mirrors.Location) (repository, version string) {
	repository, version, _ = mirrors.Canonical(l.Ref)
	return mirrors.OneSpelling(repository), version
}

// mayChange reports whether a copy may alter what was found at l. It helps no node that is refused, or
// gets no answer. A whole image looked up by its digest stays the same.
func mayChange(l mirrors.Location, f *policy.Fact) bool {
	switch f.Presence {
	case policy.Absent, policy.Incomplete:
	case policy.Present:
		if mirrors.ByDigest(l.Ref) && len(f.Missing) == 0 {
			return false
		}
	default:
		return false
	}
	return l.Depth != mirrors.DepthReferrers
}

// placesOf returns the locations at which the sources are asked for, each once, in order.
func placesOf(origins map[mirrors.Location]origin) []mirrors.Location {
	places := map[mirrors.Location]bool{}
	for l, o := range origins {
		if !o.isOther() {
			places[o.at(l)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(places), func(a, b mirrors.Location) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), strings.Compare(a.Ref, b.Ref))
	})
}

// at returns where to ask for the source of a copy to l. The trust of nodes in l's registry, blind or
// by other CAs, need not hold for the source's.
func (o origin) at(l mirrors.Location) mirrors.Location {
	return mirrors.Location{Ref: o.String(), Depth: l.Depth}
}

// after returns the fact about l after the copy from o, where before is today's.
func (m *Mapping) after(l mirrors.Location, o origin, before *policy.Fact, sources policy.Facts) *policy.Fact {
	if o.isOther() {
		after := m.unknown(before, o, "which is no registry that could be asked")
		after.Never = true
		return after
	}
	source := sources.At(o.at(l))
	switch source.Presence {
	case policy.Present:
		if _, version := split(l); strings.HasPrefix(version, "@") && !o.byDigest() && source.Digest != version[1:] {
			return m.unchanged(before, o, &policy.Fact{Detail: "it has another digest there"})
		}
		if before.Presence == policy.Present && before.Digest != "" && before.Digest == source.Digest && len(before.Missing) == 0 {
			return before // it is there already
		}
		after := *source
		after.Assumed = m.evidence(o)
		return &after
	case policy.Absent, policy.Incomplete, policy.Mismatch:
		return m.unchanged(before, o, source)
	case policy.Unknown:
		if before.Presence == policy.Unknown {
			return before
		}
		return m.unknown(before, o, "which has not answered yet")
	default:
		return m.unknown(before, o, "which could not be read: "+cmp.Or(source.Detail, source.Presence.String()))
	}
}

// unchanged is before, as there is nothing to copy.
func (m *Mapping) unchanged(before *policy.Fact, o origin, source *policy.Fact) *policy.Fact {
	after := *before
	if after.Presence != policy.Present {
		after.Detail = text.Cut(fmt.Sprintf("%s; %s, from where it cannot be copied: %s", cmp.Or(before.Detail, "not found"), m.evidence(o), cmp.Or(source.Detail, source.Presence.String())), maxDetail)
	}
	return &after
}

// unknown is the fact about a place whose future content is unknown.
func (m *Mapping) unknown(before *policy.Fact, o origin, why string) *policy.Fact {
	return &policy.Fact{
		Presence: policy.Inconclusive, AsNodes: before.AsNodes, Time: before.Time,
		Detail: text.Cut(fmt.Sprintf("what will be there is not known: %s, %s", m.evidence(o), why), maxDetail),
	}
}

// maxDetail is the length of a Fact's Detail, in runes, that a person reads.
const maxDetail = 400

// maxTagged is how many sources by tag are read for the digests behind them.
const maxTagged = 1000

// tagged returns the origins of digests that reach the mirror only under a tag, as its image or as a
// part of that.
func (r mirrored) tagged(ctx context.Context, open []mirrors.Location, fresh policy.Freshness) map[mirrors.Location]origin {
	asked := map[mirrors.Location]bool{}
	var places []mirrors.Location
	repositories := map[string]bool{}
	for _, l := range open {
		to, _ := split(l)
		if repositories[to] {
			continue
		}
		repositories[to] = true
		for _, number := range r.mapping.to[to].tagged {
			o := r.mapping.origins[number]
			place := mirrors.Location{Ref: o.String(), Depth: mirrors.DepthManifest}
			if !asked[place] && len(places) < maxTagged {
				asked[place] = true
				places = append(places, place)
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	return r.mapping.among(open, r.Registries.Presence(ctx, places, fresh))
}

// among finds open among what sources have.
func (m *Mapping) among(open []mirrors.Location, sources policy.Facts) map[mirrors.Location]origin {
	found := map[mirrors.Location]origin{}
	for _, l := range open {
		to, version := split(l)
		for _, number := range m.to[to].tagged {
			o := m.origins[number]
			f := sources.At(mirrors.Location{Ref: o.String(), Depth: mirrors.DepthManifest})
			if f.Presence == policy.Present && (f.Digest == version[1:] || slices.Contains(f.Children, version[1:])) {
				o.version = version
				found[l] = o
				break
			}
		}
	}
	return found
}

// Notes implements review.NoteSource.
func (r mirrored) Notes() []string { return append(r.Registries.Notes(), r.mapping.Note()) }

// Note states the assumptions about m.
func (m *Mapping) Note() string {
	return fmt.Sprintf("%s has not been carried out: what it copies (%s) is assumed to be where it copies it to, whole, as it is at its source now",
		m.name, text.Count(m.lines, "line"))
}
