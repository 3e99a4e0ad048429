package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// A Reroute is an image whose route a change alters.
type Reroute struct {
	Image         Image
	Before, After mirrors.Route
	// BeforeUnknown is set if it is not known what nodes do today. Before is zero then,
	// which proves nothing.
	BeforeUnknown bool
	// Pools are the MachineConfigPools whose nodes take these routes, where others take
	// others; none if all nodes do. Each Reroute of an image is of other pools then.
	Pools []string
	// HiddenBy is the scope of the narrower entry that covers the image after the
	// change instead of a wider one that is still there; "" if there is none.
	HiddenBy string
	// OtherCredentials is set if nodes may have other credentials for the image, and for
	// its mirrors, than the guard (Cluster.OtherCredentials). To be denied is no proof then.
	OtherCredentials bool
	// Never are the objects that make the source of the entry After.Entry
	// NeverContactSource, by name ("ImageTagMirrorSet apps").
	Never []string

	// Set by setDepths: whether platforms are of interest, and whether all nodes are of one.
	platforms, onePlatform bool
}
