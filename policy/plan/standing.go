package plan

import (
	"slices"
	"strings"

	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A StandingPlan is the Plan of the standing verification.
type StandingPlan struct {
	Plan
	entries map[string][]mirrors.Entry // those with an effect, by source
}

// NewStanding returns the plan of the standing verification: which images does set, the
// configuration in force, send to mirrors? It is the plan of a change from nothing: of all that leads nodes to
// mirrors, be it objects, files of MachineConfigs or what nodes have that lag behind, into a
// cluster without it. So the rules for changes judge it. The entries do not count as added: findings about
// them were reported when they were created.
//
// Where MCO rejects set, Reroutes are those of the
// configuration that nodes have (mirrors.Set.Applied) or, where that is not known, of set regardless of
// validation, which comes closest, and is a gap. The verdict depends on no gap.
func NewStanding(set mirrors.Set, known Cluster, s settings.Settings) StandingPlan {
	c := policy.Change{Before: set, After: set} // only its routes are asked for
	known = known.withPins(c)
	p := StandingPlan{newInForce(set, &known, s), bySource(set)}
	for i := range p.Routes {
		r := &p.Routes[i]
		reroutes, malformed := reroutes(c, r.resolution, &known, nil, &p.Settings, touched(c, r.resolution, known.Images))
		p.addReroutes(reroutes, malformed, r.Pools)
	}
	p.forgetPools()
	bare := set
	bare.Objects = nil
	p.addAtOnce(atOnce(policy.Change{Before: bare, After: set}, &known, &p.Settings))
	p.setDepths()
	p.setMeetings()
	return p
}

// Lookups is that of Plan for a caller that can wait. While the mirrors of an image have
// not all answered, it asks nothing else about the image: the source is left alone as long as
// a mirror may hold it.
func (p StandingPlan) Lookups(facts policy.Facts) []mirrors.Location {
	p.Reroutes = slices.DeleteFunc(slices.Clone(p.Reroutes), func(r evidence.Reroute) bool {
		return slices.ContainsFunc(r.After.Mirrors(), func(l mirrors.Location) bool {
			f, asked := facts[l]
			return asked && f.Presence == policy.Unknown
		})
	})
	return p.Plan.Lookups(facts)
}

// ObjectsBehind returns the objects that made the entry of registries.conf that decides
// about r: those with exactly its scope or, where it inherited its mirrors from a wider one,
// those that cover it. If some of them are of the kind that serves the image, the others,
// which can only block it, are left out. There are none if the entry is of a MachineConfig's file.
func (p StandingPlan) ObjectsBehind(r *evidence.Reroute) []mirrors.Object {
	if r.Puller == mirrors.Nodes && p.madeByFile(r) {
		return nil
	}
	behind := p.entries[r.After.Entry]
	if len(behind) == 0 {
		for source, entries := range p.entries {
			if registries.ScopeIsNestedInsideScope(r.After.Entry, source) {
				behind = append(behind, entries...)
			}
		}
	}
	others := func(e mirrors.Entry) bool { return !policy.ServesPullType(e, r.Image.Ref) }
	if serving := slices.DeleteFunc(slices.Clone(behind), others); len(serving) > 0 {
		behind = serving
	}
	objects := convert.Each(behind, func(e mirrors.Entry) mirrors.Object { return e.Object })
	slices.SortFunc(objects, func(a, b mirrors.Object) int { return strings.Compare(mirrors.NameOf(a), mirrors.NameOf(b)) })
	return slices.Compact(objects)
}

// madeByFile reports whether a file of a MachineConfig has the entry that decides about r.
func (p StandingPlan) madeByFile(r *evidence.Reroute) bool {
	routes := &p.Routes[0]
	if len(r.Pools) > 0 {
		routes = p.Routes.On(r.Pools[0])
	}
	return routes.After.Maker(r.After.Entry) != ""
}

// bySource returns the entries of s that have an effect, by their sources.
func bySource(s mirrors.Set) map[string][]mirrors.Entry {
	entries := map[string][]mirrors.Entry{}
	for _, e := range s.Entries() {
		if e.HasMirror() {
			entries[e.Source] = append(entries[e.Source], e)
		}
	}
	return entries
}
