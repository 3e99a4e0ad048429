package simulation

import (
	"encoding/binary"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// podClass is all pods of one spec in one namespace, with their common properties.
type podClass struct {
	id        int
	namespace string
	spec      *rollout.PodSpec
	// mobile is how many pods of it a drain evicts, or the scheduler has still to place.
	mobile int
	// keeps is how many of these have finalizers, and may stay behind where they are evicted.
	keeps int
	// pods is how many there are of it, and fixed where those are that stay. Leaving is where
	// some are that are being deleted and take room.
	pods    int
	fixed   []int32
	leaving []int32
	// requests is by the index of the resource.
	requests []int64
	pulls    []imagePull
	// eligible are the nodes that the scheduler may choose, by conditions that do not change;
	// toleratesCordon says that a cordon does not keep the pod away.
	eligible *nodeSet
	// reach are those and the ones where its pods are that move.
	reach           *nodeSet
	toleratesCordon bool
	// counted are the counters that count its pods. On a node where one of noneOf counts a
	// pod it cannot run; someOf and spreads are the other constraints that depend on pods.
	counted []*counter
	noneOf  []*counter
	someOf  []Affinity
	spreads []Spread
	budgets []*budget
}

// waits reports whether another scheduler or a scheduling gate decides where or when the pod starts.
func (s *podClass) waits() bool {
	return s.spec.Gated || s.spec.Scheduler != "" && s.spec.Scheduler != "default-scheduler"
}

// plain says that a node where the pod could not go has to become free first: nothing else
// makes it possible.
func (s *podClass) plain() bool {
	return !s.toleratesCordon && len(s.someOf) == 0 && len(s.spreads) == 0 && !slices.ContainsFunc(s.noneOf, func(c *counter) bool {
		return c.domains.n < len(c.domains.of)
	})
}

func packed(amounts []int64) string {
	b := make([]byte, 0, 8*len(amounts))
	for _, amount := range amounts {
		b = binary.AppendVarint(b, amount)
	}
	return string(b)
}
