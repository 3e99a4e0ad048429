package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// A Reroute is an image whose route a change alters. There may be 100,000: what few have is in rare.
type Reroute struct {
	Image Image
	// Puller is who takes the routes. Each Reroute of an image is of the consumers of one.
	Puller        mirrors.Puller
	Before, After mirrors.Route
	// BeforeUnknown is set if it is not known what nodes do today. Before is zero then,
	// which proves nothing.
	BeforeUnknown bool
	// OtherCredentials is set if nodes may have other credentials for the image, and for
	// its mirrors, than the guard (Cluster.OtherCredentials). To be denied is no proof then.
	OtherCredentials bool
	// settled is set for an image that the change leaves on its route, and that a drain has pulled
	// again.
	settled bool
	// brought is set for an image that the change itself brings, which is no reroute either.
	brought bool
	// pinned is set, in addition, if it does so by PinnedImageSets.
	pinned bool
	// hidden is set if After.Entry covers the image instead of a wider entry, that of Before, which is still there.
	hidden bool
	// Set by setDepths: whether platforms are of interest, and whether all nodes are of one;
	// whether the image is protected; the facts about the nodes; and who reads signatures at the places of all reroutes.
	platforms, onePlatform bool
	protected              bool
	site                   *nodeSite
	readers                Readers
	// Namespace is that of all consumers of Image here, where nodes hold its pods to a signature
	// policy of their own; "" for all others. Each Reroute of an image is of other consumers
	// then.
	Namespace string
	// Pools are the MachineConfigPools whose nodes take these routes, where others take
	// others; none if all nodes do. Each Reroute of an image is of other pools then.
	Pools []string

	rare *rarity // nil for none
}

// A rarity holds the fields that few reroutes have.
type rarity struct {
	// maybe are routes that nodes may take today, where BeforeUnknown: by the objects in force, and
	// by none at all.
	maybe []mirrors.Route
	// current are the routes that nodes take today by what they have, where these are not Before.
	current []currentRoute
	// meetings are the places of After where nodes look for other images too.
	meetings []meeting
}

// never returns the objects that make the source of After.Entry NeverContactSource ("ImageTagMirrorSet apps"), if nodes
// get to know that by the change.
func (r *Reroute) never() []string {
	if r.site == nil || r.settled || r.Puller != mirrors.Nodes {
		return nil
	}
	return r.site.never[r.After.Entry]
}

// rarely returns the fields that few reroutes have, zero where r has none.
func (r *Reroute) rarely() rarity {
	if r.rare == nil {
		return rarity{}
	}
	return *r.rare
}

// setRare sets what rarely returns.
func (r *Reroute) setRare(rare rarity) {
	if r.rare = nil; len(rare.maybe)+len(rare.current)+len(rare.meetings) > 0 {
		some := rare // else rare would be on the heap in any case
		r.rare = &some
	}
}
