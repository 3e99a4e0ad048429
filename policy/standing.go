package policy

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NewStanding returns the plan of the standing verification: which images does set, the
// configuration in force, send to mirrors? It is the plan of creating all mirror objects of
// set at once, in a cluster that has none, so that the rules for changes also judge their
// results. The entries do not count as added: what there was to say about them was said when
// they were created.
//
// Where MCO rejects set, Rejected and RejectedBefore are both set, and Reroutes are those of
// what nodes have (mirrors.Set.Applied) or, where that is not known, of what set says
// regardless of validation, which comes closest; Gaps then has that. The verdict depends on no gap.
func NewStanding(set mirrors.Set, known Cluster, s Settings) Plan {
	s = s.forNoChange()
	known = known.withPins(Change{Before: set, After: set})
	p := Plan{Total: known.Images.Len(), Gaps: known.Gaps, settings: s, entries: bySource(set), site: siteOf(&known), standing: true, inForce: true}
	bare := set
	bare.Objects = nil
	before, _ := mirrors.ResolveUnchecked(bare)
	inForce := cmp.Or(known.InForce, mirrors.NewTables(set))
	after, err := inForce.Resolve(set.Pool)
	if errors.As(err, &p.Rejected) {
		p.RejectedBefore = p.Rejected
		if after, err = inForce.ResolveApplied(set.Pool); err != nil {
			p.Gaps = append(slices.Clip(p.Gaps), unreadApplied(p.Rejected, err))
			after, _ = inForce.ResolveUnchecked(set.Pool)
		}
	}
	if before == nil || after == nil {
		return p // not even the generator can make sense of it
	}
	c := Change{Before: set, After: set} // of which nothing but the routes is asked
	r := resolution{before: before, after: after}
	p.Reroutes, p.Malformed = c.reroutes(r, &known, nil, &s, c.touched(r, known.Images))
	p.addAtOnce(Change{Before: bare, After: set}.atOnce(&known, &s))
	p.setDepths()
	return p
}

// StandingLookups is Lookups for a caller that can wait. While the mirrors of an image have
// not all answered, it asks nothing else about the image: the source is left alone as long as
// a mirror may hold it.
func (p Plan) StandingLookups(facts Facts) []mirrors.Location {
	p.Reroutes = slices.DeleteFunc(slices.Clone(p.Reroutes), func(r Reroute) bool {
		return slices.ContainsFunc(r.After.Mirrors(), func(l mirrors.Location) bool {
			f, asked := facts[l]
			return asked && f.Presence == Unknown
		})
	})
	return p.Lookups(facts)
}

// A Standing is the state of an image at its mirrors.
type Standing struct {
	Reroute
	// Outcome is Works where a mirror serves the image, Fails where it is known that
	// none does, or none in full, and Unsure if that could not be determined.
	Outcome Outcome
	// At is the mirror that serves it, where Outcome is Works.
	At mirrors.Location
	// Finding says what is wrong where Outcome is Fails.
	Finding Finding
	// Objects are those that send the image to its mirrors, or cut it off from them,
	// sorted by name; none where the configuration does not tell.
	Objects []mirrors.Object
}

// Standings returns the state of each image of a plan by NewStanding, protected images first.
// It leaves out images that only history names, or only guesses, and
// disregards findings that the settings make Info: those are not wanted.
func (p Plan) Standings(facts Facts) []Standing {
	s := &p.settings
	objects := map[string][]mirrors.Object{} // by what they depend on
	var standings []Standing
	for _, k := range p.ranking() {
		r := &p.Reroutes[k]
		a := s.assess(r, facts)
		if onlyHistory(r.Image) || s.merelyGuessed(r.Image) || !a.mirrored() {
			continue
		}
		key := pullType(r.Image.Ref) + " " + r.After.Entry
		if _, ok := objects[key]; !ok {
			objects[key] = p.objectsBehind(r)
		}
		standing := s.standing(a)
		standing.Reroute, standing.Objects = *r, objects[key]
		standing.Finding.Reason = inForce.Replace(standing.Finding.Reason)
		standings = append(standings, standing)
	}
	return standings
}

// standing says whether the mirrors serve what a is about and, if not, what is wrong.
func (s *Settings) standing(a *assessment) Standing {
	findings := s.judge(a)
	loss := slices.IndexFunc(findings, isLoss)
	switch {
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
// which can only block it, are left out.
func (p Plan) objectsBehind(r *Reroute) []mirrors.Object {
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
	objects := each.Of(behind, func(e mirrors.Entry) mirrors.Object { return e.Object })
	slices.SortFunc(objects, func(a, b mirrors.Object) int { return strings.Compare(mirrors.NameOf(a), mirrors.NameOf(b)) })
	return slices.Compact(objects)
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
