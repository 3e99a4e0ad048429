package policy

import (
	"cmp"
	"slices"
	"strings"
)

// A ranked is an impact by its index, with its rank and its turn among those of its rank.
type ranked struct{ index, rank, turn int }

// A share is what takes turns with its like: a namespace, or an object in it.
type share struct {
	rank                  int
	namespace, kind, name string
}

// takeTurns sorts impacts of the same rank such that each share has its turn: one with
// thousands of images that are nowhere to be found does not use up the time for those of
// all others. An image has the first turn that any of its users has for it, so that nobody
// can put off others' images by naming them too.
func takeTurns(impacts []Reroute, order []ranked, of func(Consumer) share) {
	taken := map[share]int{}
	for k := range order {
		var first share
		for i, u := range impacts[order[k].index].Image.Consumers {
			s := of(u)
			s.rank = order[k].rank
			if i == 0 || taken[s] < taken[first] {
				first = s
			}
		}
		first.rank = order[k].rank // also where there is no user
		order[k].turn = taken[first]
		taken[first]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.turn, b.turn))
	})
}

// rank returns the indices of impacts, those of protected images first. Of others,
// namespaces take turns, and in each of them its objects.
func (s Settings) rank(impacts []Reroute) []int {
	order := make([]ranked, len(impacts))
	for i, impact := range impacts {
		order[i] = ranked{index: i, rank: s.Rank(impact.Image)}
	}
	takeTurns(impacts, order, func(u Consumer) share { return share{namespace: u.Namespace, kind: u.Kind, name: u.Name} })
	takeTurns(impacts, order, func(u Consumer) share { return share{namespace: u.Namespace} })
	indices := make([]int, len(order))
	for i, o := range order {
		indices[i] = o.index
	}
	return indices
}

// Rank says how important img is: lower comes first. Users in protected
// namespaces count before all else, in the order of the patterns; then what runs
// comes before what is only referenced, and history and guesses last.
func (s Settings) Rank(img Image) int {
	best := 1 << 20
	for _, u := range img.Consumers {
		best = min(best, s.namespaceRank(u.Namespace)*3+useRank(u))
	}
	return best
}

// IsProtected reports whether a user of img lives in a protected namespace. History does
// not count beside users that may pull the image.
func (s Settings) IsProtected(img Image) bool {
	history := onlyHistory(img)
	return slices.ContainsFunc(img.Consumers, func(u Consumer) bool {
		return (history || u.Use != History) && s.namespaceRank(u.Namespace) < len(s.protected())
	})
}

func (s Settings) protected() []string {
	if s.Protected == nil {
		return DefaultProtected
	}
	return s.Protected
}

// namespaceRank returns the index of the first pattern that matches, or the
// number of patterns. Cluster-scoped users match none.
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

func useRank(u Consumer) int {
	switch {
	case u.Use == History, u.Guessed:
		return 2
	case u.Use == Running:
		return 0
	default:
		return 1
	}
}
