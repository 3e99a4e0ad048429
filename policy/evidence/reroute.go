package evidence

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Reroute is an image whose route a change alters. There may be 100,000: what few have is in rare.
type Reroute struct {
	Image policy.Image
	// Puller is who takes the routes. Each Reroute of an image is of the consumers of one.
	Puller        mirrors.Puller
	Before, After mirrors.Route
	// BeforeUnknown is set if it is not known what nodes do today. Before is zero then,
	// which proves nothing.
	BeforeUnknown bool
	// OtherCredentials is set if nodes may have other credentials for the image, and for
	// its mirrors, than the guard (plan.Cluster.OtherCredentials). To be denied is no proof then.
	OtherCredentials bool
	// Settled is set for an image that the change leaves on its route, and that a drain has pulled
	// again.
	Settled bool
	// Brought is set for an image that the change itself brings, which is no reroute either.
	Brought bool
	// Pinned is set, in addition, if it does so by PinnedImageSets.
	Pinned bool
	// Hidden is set if After.Entry covers the image instead of a wider entry, that of Before, which is still there.
	Hidden bool
	// Set by setDepths: whether platforms are of interest, and whether all nodes are of one;
	// whether the image is protected; the facts about the nodes; and who reads signatures at the places of all reroutes.
	Platforms, OnePlatform bool
	Protected              bool
	Site                   *NodeSite
	Readers                policy.Readers
	// Namespace is that of all consumers of Image here, where nodes hold its pods to a signature
	// policy of their own; "" for all others. Each Reroute of an image is of other consumers
	// then.
	Namespace string
	// Pools are the MachineConfigPools whose nodes take these routes, where others take
	// others; none if all nodes do. Each Reroute of an image is of other pools then.
	Pools []string

	rare *Rarity // nil for none
}

// A Rarity holds the fields that few reroutes have.
type Rarity struct {
	// Maybe are routes that nodes may take today, where BeforeUnknown: by the objects in force, and
	// by none at all.
	Maybe []mirrors.Route
	// Current are the routes that nodes take today by what they have, where these are not Before.
	Current []CurrentRoute
	// Meetings are the places of After where nodes look for other images too.
	Meetings []Meeting
}

// Never returns the objects that make the source of After.Entry NeverContactSource ("ImageTagMirrorSet apps"), if nodes
// get to know that by the change.
func (r *Reroute) Never() []string {
	if r.Site == nil || r.Settled || r.Puller != mirrors.Nodes {
		return nil
	}
	return r.Site.Never[r.After.Entry]
}

// Rarely returns the fields that few reroutes have, zero where r has none.
func (r *Reroute) Rarely() Rarity {
	if r.rare == nil {
		return Rarity{}
	}
	return *r.rare
}

// SetRare sets what rarely returns.
func (r *Reroute) SetRare(rare Rarity) {
	if r.rare = nil; len(rare.Maybe)+len(rare.Current)+len(rare.Meetings) > 0 {
		some := rare // else rare would be on the heap in any case
		r.rare = &some
	}
}

// OtherRoutes returns the routes that nodes may take today beside Before.
func (r *Reroute) OtherRoutes() []*mirrors.Route {
	var routes []*mirrors.Route
	rare := r.Rarely()
	for i := range rare.Maybe {
		routes = append(routes, &rare.Maybe[i])
	}
	for i := range rare.Current {
		if rare.Current[i].By.Routes != nil {
			routes = append(routes, &rare.Current[i].Route)
		}
	}
	return routes
}

// A Meeting is a place at a mirror where nodes look for several images by tag. It can hold one.
type Meeting struct {
	At     mirrors.Location
	Others []policy.Image // sorted by reference
}

// SearchesOthers reports whether nodes will search other registries for a short name than today, or in another order.
func (r *Reroute) SearchesOthers() bool {
	if r.BeforeUnknown || !IsShort(r.Before) && !IsShort(r.After) && NameOf(&r.Before, 0) == NameOf(&r.After, 0) {
		return false
	}
	return !slices.Equal(Searched(&r.Before), Searched(&r.After))
}

// WantsToday reports whether it has to be known what nodes get today: they will search other registries for a tag, or ask other places and
// may find it at another registry, and no pod says which image it stands for.
func (r *Reroute) WantsToday() bool {
	mayMove := IsShort(r.Before) && IsShort(r.After) && !r.Before.SamePlaces(r.After)
	return (mayMove || r.SearchesOthers()) && !mirrors.ByDigest(r.Image.Ref) && len(DigestsOf(r.Image)) == 0
}

// IsAnother reports whether the image runs, and fact is known to be about another.
func (r *Reroute) IsAnother(fact *policy.Fact) bool {
	running := DigestsOf(r.Image)
	return len(running) > 0 && fact.HasDigest() && !slices.ContainsFunc(running, func(digest string) bool {
		return digest == fact.Digest || slices.Contains(fact.Children, digest)
	})
}

// IsShort reports whether a route is of a short name.
func IsShort(r mirrors.Route) bool {
	return slices.ContainsFunc(r.Sources, func(s mirrors.PullSource) bool { return s.Candidate > 0 })
}

// Searched returns the full names that nodes try for a short one.
func Searched(r *mirrors.Route) (names []string) {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() {
			names = append(names, NameOf(r, s.Candidate))
		}
	}
	return slices.Compact(names)
}

// NameOf returns the full name of a candidate for a short one.
func NameOf(r *mirrors.Route, candidate int) string {
	for k := range r.Sources {
		if s := &r.Sources[k]; !s.Mirror && s.Candidate == candidate {
			return s.Ref
		}
	}
	return ""
}

// DigestsOf returns the digests that run under the reference of img, sorted.
func DigestsOf(img policy.Image) []string {
	var digests []string
	for _, c := range img.Consumers {
		if c.Use == policy.Running && c.Digest != "" {
			digests = append(digests, c.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}
