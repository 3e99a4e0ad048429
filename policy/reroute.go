package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// A Reroute is an image whose route a change alters.
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
	// settled is set for what is no reroute: an image that the change leaves on its route, and
	// that a drain has pulled again.
	settled bool
	// brought is set for what is no reroute either: an image that the change itself brings.
	brought bool
	// pinned is set, in addition, if it does so by PinnedImageSets.
	pinned bool
	// Set by setDepths: whether platforms are of interest, and whether all nodes are of one;
	// whether the image is protected; and what is known of the nodes, and who reads signatures at the places of all reroutes.
	platforms, onePlatform bool
	protected              bool
	site                   *nodeSite
	readers                Readers
	// Maybe are routes that nodes may take today, where BeforeUnknown: by the objects in force, and
	// by none at all.
	Maybe []mirrors.Route
	// Namespace is that of all consumers of Image here, where nodes hold its pods to a signature
	// policy of their own; "" for all others. Each Reroute of an image is of other consumers
	// then.
	Namespace string
	// Pools are the MachineConfigPools whose nodes take these routes, where others take
	// others; none if all nodes do. Each Reroute of an image is of other pools then.
	Pools []string
	// HiddenBy is the scope of the narrower entry that covers the image after the
	// change instead of a wider one that is still there; "" if there is none.
	HiddenBy string
	// Never are the objects that make the source of the entry After.Entry
	// NeverContactSource, by name ("ImageTagMirrorSet apps").
	Never []string

	// current are the routes that nodes take today by what they have, where these are not Before.
	current []currentRoute
	// meetings are the places of After where nodes look for other images too.
	meetings []meeting
}
