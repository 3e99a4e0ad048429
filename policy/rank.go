package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

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
func roundRobin(reroutes []Reroute, order []ranked, of func(Consumer) contender) {
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

// ranking returns the indices of the reroutes, the most important first. It is worked out
// once, and again for a plan from which some have been left out.
func (p Plan) ranking() []int {
	if len(p.order) == len(p.Reroutes) {
		return p.order
	}
	return p.settings.rank(p.Reroutes)
}

// rank returns the indices of reroutes, those of protected images first. Among those of equal
// rank it alternates between namespaces, and within a namespace between objects.
func (s Settings) rank(reroutes []Reroute) []int {
	order := make([]ranked, len(reroutes))
	for i, reroute := range reroutes {
		order[i] = ranked{index: i, rank: s.Rank(reroute.Image)}
		if reroute.Puller != mirrors.Nodes {
			order[i].rank += behindNodes
		}
	}
	roundRobin(reroutes, order, func(c Consumer) contender { return contender{namespace: c.Namespace, kind: c.Kind, name: c.Name} })
	roundRobin(reroutes, order, func(c Consumer) contender { return contender{namespace: c.Namespace} })
	return convert.Each(order, func(o ranked) int { return o.index })
}

// behindNodes is added to the rank of what nodes do not pull. A pod that a drain has evicted is not there
// until its image is; a build or an import is tried again.
const behindNodes = 1 << 19

// Rank says how important img is: lower comes first. Consumers in protected namespaces count most, in
// the order of the patterns; then running images come before referenced ones, and history and guesses
// come last.
func (s Settings) Rank(img Image) int {
	best := 1 << 20
	for _, c := range img.Consumers {
		best = min(best, s.namespaceRank(c.Namespace)*3+useRank(c))
	}
	return best
}

// IsProtected reports whether a consumer of img lives in a protected namespace. History
// counts only if there is nothing else.
func (s Settings) IsProtected(img Image) bool {
	history := onlyHistory(img)
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool {
		return (history || c.Use != History) && s.namespaceRank(c.Namespace) < len(s.protected())
	})
}

func (s Settings) protected() []string {
	if s.Protected == nil {
		return DefaultProtected
	}
	return s.Protected
}

// namespaceRank returns the index of the first pattern that matches, or the
// number of patterns. Cluster-scoped consumers match none.
func (s Settings) namespaceRank(namespace string) int {
	patterns := s.protected()
	if namespace == "" {
		return len(patterns)
	}
	for i, p := range patterns {
		if matches(p, namespace) {
			return i
		}
	}
	return len(patterns)
}

// matches reports whether a pattern, which may end in "*", names a namespace.
func matches(pattern, namespace string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == namespace || open && strings.HasPrefix(namespace, prefix)
}

func useRank(c Consumer) int {
	switch {
	case c.Use == History, c.Guessed:
		return 2
	case c.Use == Running:
		return 0
	default:
		return 1
	}
}

// sortConsumers returns img with the consumers that matter most first: those in protected
// namespaces, then what a person deploys before what controllers make of it, then what runs.
func (s Settings) sortConsumers(img Image) Image {
	if len(img.Consumers) < 2 {
		return img
	}
	img.Consumers = slices.Clone(img.Consumers)
	slices.SortStableFunc(img.Consumers, func(a, b Consumer) int {
		return cmp.Or(
			cmp.Compare(s.namespaceRank(a.Namespace), s.namespaceRank(b.Namespace)),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)),
			cmp.Compare(useRank(a), useRank(b)),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Container, b.Container),
		)
	})
	return img
}

// kindRank puts what a person writes before what a controller makes of it.
func kindRank(kind string) int {
	switch kind {
	case "ReplicaSet", "ReplicationController", "Job":
		return 1
	case "Pod":
		return 2
	default:
		return 0
	}
}
