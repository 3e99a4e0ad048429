package policy

import (
	"slices"
	"strings"

	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A StandingPlan is the Plan of the standing verification.
type StandingPlan struct {
	Plan
	entries map[string][]mirrors.Entry // those with an effect, by source
}

// Decide judges p by the facts.
func (p StandingPlan) Decide(facts Facts) StandingVerdict {
	j := p.judgeInForce(facts)
	for _, r := range inForceRules {
		j.Findings = append(j.Findings, r.find(p.Plan, p.settings, facts)...)
	}
	p.settings.sort(j.Findings)
	return StandingVerdict{j}
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
func NewStanding(set mirrors.Set, known Cluster, s Settings) StandingPlan {
	c := Change{Before: set, After: set} // only its routes are asked for
	known = known.withPins(c)
	p := StandingPlan{newInForce(set, &known, s), bySource(set)}
	for i := range p.routes {
		r := &p.routes[i]
		reroutes, malformed := c.reroutes(r.resolution, &known, nil, &p.settings, c.touched(r.resolution, known.Images))
		p.addReroutes(reroutes, malformed, r.pools)
	}
	p.forgetPools()
	bare := set
	bare.Objects = nil
	p.addAtOnce(Change{Before: bare, After: set}.atOnce(&known, &p.settings))
	p.setDepths()
	p.setMeetings()
	return p
}

// Lookups is that of Plan for a caller that can wait. While the mirrors of an image have
// not all answered, it asks nothing else about the image: the source is left alone as long as
// a mirror may hold it.
func (p StandingPlan) Lookups(facts Facts) []mirrors.Location {
	p.Reroutes = slices.DeleteFunc(slices.Clone(p.Reroutes), func(r Reroute) bool {
		return slices.ContainsFunc(r.After.Mirrors(), func(l mirrors.Location) bool {
			f, asked := facts[l]
			return asked && f.Presence == Unknown
		})
	})
	return p.Plan.Lookups(facts)
}

// A Standing is the state of an image at its mirrors.
type Standing struct {
	Reroute
	// Outcome is Works where a mirror serves the image, Fails where it is known that
	// none does, or none in full, and Unsure if that could not be determined.
	Outcome Outcome
	// At is the mirror that serves it, where Outcome is Works.
	At mirrors.Location
	// Finding states the fault where Outcome is Fails.
	Finding Finding
	// Objects are those that send the image to its mirrors, or cut it off from them,
	// sorted by name; none where the configuration does not tell.
	Objects []mirrors.Object
}

// Standings returns the state of each image of a plan by NewStanding, protected images first: the worst, where nodes take
// different routes to it.
// It leaves out images that only history names, or only guesses, and
// disregards findings that the settings make Info: those are not wanted.
func (p StandingPlan) Standings(facts Facts) []Standing {
	s := &p.settings
	objects := map[string][]mirrors.Object{} // by what they depend on
	at := map[string]int{}                   // by image: its nodes may take several routes
	var standings []Standing
	for _, k := range p.ranking() {
		r := &p.Reroutes[k]
		a := s.assess(r, facts)
		if onlyHistory(r.Image) || s.merelyGuessed(r.Image) || !a.mirrored() {
			continue
		}
		standing := s.standing(a)
		i, known := at[r.Image.Ref]
		if known && !standing.isWorse(standings[i]) {
			continue
		}
		key := strings.Join(append([]string{pullType(r.Image.Ref), r.Puller.String(), r.After.Entry}, r.Pools...), " ")
		if _, ok := objects[key]; !ok {
			objects[key] = p.objectsBehind(r)
		}
		standing.Reroute, standing.Objects = *r, objects[key]
		standing.Finding.Reason = inForce.Replace(standing.Finding.Reason)
		if known {
			standings[i] = standing
			continue
		}
		at[r.Image.Ref] = len(standings)
		standings = append(standings, standing)
	}
	return standings
}

// isWorse reports whether less works than by other.
func (s Standing) isWorse(other Standing) bool {
	return other.Outcome != Fails && (s.Outcome == Fails || s.Outcome == Unsure && other.Outcome == Works)
}

// standing says whether the mirrors serve the image of a and, if not, why.
func (s *Settings) standing(a *assessment) Standing {
	findings := s.judge(a)
	loss := slices.IndexFunc(findings, isLoss)
	switch {
	case a.site.runOnWindows(a.Image.Consumers): // nodes ask other places
		return Standing{Outcome: Unsure}
	case a.mirrors == Unsure, loss >= 0 && a.mirrors.Found() && a.awaited():
		return Standing{Outcome: Unsure}
	case loss >= 0:
		return Standing{Outcome: Fails, Finding: findings[loss]}
	case a.mirrors.Found():
		at, _ := a.newRoute.served()
		return Standing{Outcome: Works, At: at.Location}
	default:
		return Standing{Outcome: Unsure} // no rule has a finding, or the settings ignore it
	}
}

// objectsBehind returns the objects that made the entry of registries.conf that decides
// about r: those with exactly its scope or, where it inherited its mirrors from a wider one,
// those that cover it. If some of them are of the kind that serves the image, the others,
// which can only block it, are left out. There are none if the entry is of a MachineConfig's file.
func (p StandingPlan) objectsBehind(r *Reroute) []mirrors.Object {
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
	others := func(e mirrors.Entry) bool { return !servesPullType(e, r.Image.Ref) }
	if serving := slices.DeleteFunc(slices.Clone(behind), others); len(serving) > 0 {
		behind = serving
	}
	objects := convert.Each(behind, func(e mirrors.Entry) mirrors.Object { return e.Object })
	slices.SortFunc(objects, func(a, b mirrors.Object) int { return strings.Compare(mirrors.NameOf(a), mirrors.NameOf(b)) })
	return slices.Compact(objects)
}

// madeByFile reports whether a file of a MachineConfig has the entry that decides about r.
func (p StandingPlan) madeByFile(r *Reroute) bool {
	routes := &p.routes[0]
	if len(r.Pools) > 0 {
		routes = p.routesOn(r.Pools[0])
	}
	return routes.after.Maker(r.After.Entry) != ""
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
