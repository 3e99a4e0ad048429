package settings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// IsProtectedNamespace reports whether a namespace is protected; that of cluster-scoped objects is.
func (s *Settings) IsProtectedNamespace(name string) bool {
	return name == "" || s.namespaceRank(name) < len(s.protected())
}

// IsProtected reports whether a consumer of img lives in a protected namespace. History
// counts only if there is nothing else.
func (s Settings) IsProtected(img policy.Image) bool {
	history := policy.OnlyHistory(img)
	return slices.ContainsFunc(img.Consumers, func(c policy.Consumer) bool {
		return (history || c.Use != policy.History) && s.namespaceRank(c.Namespace) < len(s.protected())
	})
}

func (s Settings) protected() []string {
	if s.Protected == nil {
		return policy.DefaultProtected
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
		if policy.MatchesName(p, namespace) {
			return i
		}
	}
	return len(patterns)
}

// Rank says how important img is: lower comes first. Consumers in protected namespaces count most, in
// the order of the patterns; then running images come before referenced ones, and history and guesses
// come last.
func (s Settings) Rank(img policy.Image) int {
	best := 1 << 20
	for _, c := range img.Consumers {
		best = min(best, s.namespaceRank(c.Namespace)*3+useRank(c))
	}
	return best
}

func useRank(c policy.Consumer) int {
	switch {
	case c.Use == policy.History, c.Guessed:
		return 2
	case c.Use == policy.Running:
		return 0
	default:
		return 1
	}
}

// SortConsumers returns img with the consumers that matter most first: those in protected
// namespaces, then what a person deploys before what controllers make of it, then what runs.
func (s Settings) SortConsumers(img policy.Image) policy.Image {
	if len(img.Consumers) < 2 {
		return img
	}
	img.Consumers = slices.Clone(img.Consumers)
	slices.SortStableFunc(img.Consumers, func(a, b policy.Consumer) int {
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
