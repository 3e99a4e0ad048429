package plan

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// AsPulled returns img as it counts on a route, which nodes are to take: consumers for which they pull
// nothing are History. These are:
//
//   - Objects that are being deleted, or are in a namespace that is, and that nothing recreates.
//     Protected namespaces are those of operators, which recreate their objects.
//   - imagePullPolicy Never, unless a signature is required: for that, nodes go to the registry
//     before they start a container of an image that they have (IsRunningImageAllowed in CRI-O's
//     server/container_create.go).
func AsPulled(s *policy.Settings, img policy.Image, route *mirrors.Route, known *Cluster) policy.Image {
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
func rank(s policy.Settings, reroutes []evidence.Reroute) []int {
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
