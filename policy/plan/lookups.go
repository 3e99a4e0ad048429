package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// setDepths sets the depth at which each place of p is looked up.
//
// For most images it is enough that a registry serves the manifest. Where more depends on it,
// the config that it names is looked up, too: for protected images, and where only mirrors are
// left. Blobs are looked up as the settings say.
//
// A fact that was found at one depth says nothing about another, as the two Locations
// differ.
func (p *Plan) setDepths() {
	p.read = p.readers()
	for k := range p.Reroutes {
		p.SetDepth(&p.Reroutes[k])
	}
	p.order = rank(p.Settings, p.Reroutes)
}

// comparePlatforms has the platforms of tags looked up as well, in a second step, and only where they may differ from
// those of the image that runs: see wantsPlatforms. Only a change has an old place to compare them with.
func (p *ChangePlan) comparePlatforms() {
	for k := range p.Reroutes {
		r := &p.Reroutes[k]
		r.Platforms = r.Puller == mirrors.Nodes && !mirrors.ByDigest(r.Image.Ref) && !policy.OnlyHistory(r.Image)
	}
}

// SetDepth is setDepths for one image. An image that is not rerouted is looked up as by the standing
// verification, whose answers then serve.
func (p *Plan) SetDepth(r *evidence.Reroute) {
	if depth := depthOf(p.Settings, r); depth > mirrors.DepthExists {
		r.Before, r.After = atDepth(r.Before, depth), atDepth(r.After, depth)
		for _, other := range r.OtherRoutes() {
			*other = atDepth(*other, depth)
		}
	}
	r.Site, r.Readers = p.Site, p.read
	r.OnePlatform = len(p.Site.Platforms) == 1
	r.Protected = p.Settings.IsProtected(r.Image)
}

// depthOf keeps the lookups of images that only history names shallow: their findings can
// at most warn.
func depthOf(s policy.Settings, r *evidence.Reroute) mirrors.Depth {
	protected := s.IsProtected(r.Image)
	switch {
	case policy.OnlyHistory(r.Image):
		return mirrors.DepthExists
	case s.Blobs == policy.BlobsOfAll, s.Blobs == policy.BlobsOfProtected && protected:
		return mirrors.DepthBlobs
	case protected, r.Pinned, r.After.SourceBlocked(), r.WantsToday(): // of a pin, the size counts
		return mirrors.DepthManifest
	default:
		return mirrors.DepthExists
	}
}

// atDepth returns r with this depth everywhere.
func atDepth(r mirrors.Route, depth mirrors.Depth) mirrors.Route {
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i := range r.Sources {
		r.Sources[i].Depth = depth
	}
	return r
}

// Lookups returns the locations on which the decision still depends: those without an entry
// in facts, protected images first. The caller looks them up, enters the results (an Unknown
// fact if there was no answer) and calls Lookups again, until there is nothing left to
// look up or time is up. The mirrors of the new routes come first, and the rest only for
// images that no mirror holds: a good change then costs one request per image.
func (p Plan) Lookups(facts policy.Facts) []mirrors.Location { return p.lookupsOf(p.Ranking(), facts) }

// LookupParts returns functions that together name what Lookups does, each for at most most reroutes. The order is the same.
// Lookups that follow from one part's answers need not wait for those to the others.
func (p Plan) LookupParts(most int) []func(policy.Facts) []mirrors.Location {
	var parts []func(policy.Facts) []mirrors.Location
	for order := range slices.Chunk(p.Ranking(), most) {
		parts = append(parts, func(facts policy.Facts) []mirrors.Location { return p.lookupsOf(order, facts) })
	}
	return parts
}

// lookupsOf returns the locations on which the decision about some of the reroutes still depends.
func (p Plan) lookupsOf(order []int, facts policy.Facts) []mirrors.Location {
	q := evidence.Lookups{Facts: facts, Most: len(order)}
	for _, i := range order {
		q.AskOn(&p.Reroutes[i].After, true)
	}
	if len(q.List) > 0 {
		return q.List
	}
	for _, i := range order {
		q.AskAfterMirrors(&p.Reroutes[i])
	}
	return q.List
}

// Locations returns every location on the routes of the plan, sorted.
func (p Plan) Locations() []mirrors.Location {
	var locs []mirrors.Location
	for _, r := range p.Reroutes {
		locs = append(locs, r.Before.Open()...)
		locs = append(locs, r.After.Open()...)
	}
	slices.SortFunc(locs, func(a, b mirrors.Location) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), cmp.Compare(policy.Bit(a.Insecure), policy.Bit(b.Insecure)), cmp.Compare(a.Depth, b.Depth), cmp.Compare(policy.Bit(a.ProposedTrust), policy.Bit(b.ProposedTrust)))
	})
	return slices.Compact(locs)
}

// readers returns those on all routes of p, of today as well.
func (p *Plan) readers() policy.Readers {
	all := policy.Readers{}
	for i := range p.Reroutes {
		r := &p.Reroutes[i]
		all.Add(&r.After)
		all.Add(&r.Before)
		for _, other := range r.OtherRoutes() {
			all.Add(other)
		}
	}
	return all
}
