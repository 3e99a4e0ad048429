package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// asPulled returns img as it counts on a route, which nodes are to take: consumers for which they pull
// nothing are History. These are:
//
//   - Objects that are being deleted, or are in a namespace that is, and that nothing recreates.
//     Protected namespaces are those of operators, which recreate their objects.
//   - imagePullPolicy Never, unless a signature is required: for that, nodes go to the registry
//     before they start a container of an image that they have (IsRunningImageAllowed in CRI-O's
//     server/container_create.go).
func (s *Settings) asPulled(img Image, route *mirrors.Route, known *Cluster) Image {
	signatures := slices.ContainsFunc(route.Sources, func(at mirrors.PullSource) bool { return at.Tried() && at.WantsSignatures() })
	isPast := func(c Consumer) bool {
		ends := c.Ending || c.Namespace != "" && known.EndingNamespaces[c.Namespace]
		return c.Use != History && (c.NeverPulls && !signatures || ends && !s.isProtectedNamespace(c.Namespace))
	}
	if !slices.ContainsFunc(img.Consumers, isPast) {
		return img
	}
	img.Consumers = slices.Clone(img.Consumers)
	for i := range img.Consumers {
		if isPast(img.Consumers[i]) {
			img.Consumers[i].Use = History
		}
	}
	return img
}

// isProtectedNamespace reports whether a namespace is protected; that of cluster-scoped objects is.
func (s *Settings) isProtectedNamespace(name string) bool {
	return name == "" || s.namespaceRank(name) < len(s.protected())
}
