package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
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
func depthOf(s settings.Settings, r *evidence.Reroute) mirrors.Depth {
	protected := s.IsProtected(r.Image)
	switch {
	case policy.OnlyHistory(r.Image):
		return mirrors.DepthExists
	case s.Blobs == settings.BlobsOfAll, s.Blobs == settings.BlobsOfProtected && protected:
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

// AsPulled returns img as it counts on a route, which nodes are to take: consumers for which they pull
// nothing are History. These are:
//
//   - Objects that are being deleted, or are in a namespace that is, and that nothing recreates.
//     Protected namespaces are those of operators, which recreate their objects.
//   - imagePullPolicy Never, unless a signature is required: for that, nodes go to the registry
//     before they start a container of an image that they have (IsRunningImageAllowed in CRI-O's
//     server/container_create.go).
func AsPulled(s *settings.Settings, img policy.Image, route *mirrors.Route, known *Cluster) policy.Image {
	signatures := slices.ContainsFunc(route.Sources, func(at mirrors.PullSource) bool { return at.Tried() && at.WantsSignatures() })
	isPast := func(c policy.Consumer) bool {
		ends := c.Ending || c.Namespace != "" && known.EndingNamespaces[c.Namespace]
		return c.Use != policy.History && (c.NeverPulls && !signatures || ends && !s.IsProtectedNamespace(c.Namespace))
	}
	if !slices.ContainsFunc(img.Consumers, isPast) {
		return img
	}
	img.Consumers = slices.Clone(img.Consumers)
	for i := range img.Consumers {
		if isPast(img.Consumers[i]) {
			img.Consumers[i].Use = policy.History
		}
	}
	return img
}

// A ranked reroute has its index, its rank, and the round in which it comes among those of
// its rank.
type ranked struct{ index, rank, round int }

// A contender takes part in a round robin with its equals: a namespace, or an object in one.
type contender struct {
	rank                  int
	namespace, kind, name string
}

// roundRobin sorts reroutes of the same rank so that each contender has one in each round: a
// namespace with thousands of images that do not exist then leaves time for those of others.
// An image belongs to the earliest round that any of its consumers has for it, which keeps
// a tenant from delaying the images of others by naming them too.
func roundRobin(reroutes []evidence.Reroute, order []ranked, of func(policy.Consumer) contender) {
	taken := map[contender]int{}
	for k := range order {
		var first contender
		for i, c := range reroutes[order[k].index].Image.Consumers {
			p := of(c)
			p.rank = order[k].rank
			if i == 0 || taken[p] < taken[first] {
				first = p
			}
		}
		first.rank = order[k].rank // also where there is no consumer
		order[k].round = taken[first]
		taken[first]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.round, b.round))
	})
}

// Ranking returns the indices of the reroutes, the most important first. It is worked out
// once, and again for a plan from which some have been left out.
func (p Plan) Ranking() []int {
	if len(p.order) == len(p.Reroutes) {
		return p.order
	}
	return rank(p.Settings, p.Reroutes)
}

// rank returns the indices of reroutes, those of protected images first. Among those of equal
// rank it alternates between namespaces, and within a namespace between objects.
func rank(s settings.Settings, reroutes []evidence.Reroute) []int {
	order := make([]ranked, len(reroutes))
	for i, reroute := range reroutes {
		order[i] = ranked{index: i, rank: s.Rank(reroute.Image)}
		if reroute.Puller != mirrors.Nodes {
			order[i].rank += behindNodes
		}
	}
	roundRobin(reroutes, order, func(c policy.Consumer) contender {
		return contender{namespace: c.Namespace, kind: c.Kind, name: c.Name}
	})
	roundRobin(reroutes, order, func(c policy.Consumer) contender { return contender{namespace: c.Namespace} })
	return convert.Each(order, func(o ranked) int { return o.index })
}

// behindNodes is added to the rank of what nodes do not pull. A pod that a drain has evicted is not there
// until its image is; a build or an import is tried again.
const behindNodes = 1 << 19
