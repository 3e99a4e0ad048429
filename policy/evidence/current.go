package evidence

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Nodes take a change one after another, and those of a paused pool do not take it: they may lag behind
// the objects in force. A change is judged from these objects, as that is where all nodes are going;
// but that an image cannot be pulled today is proved only if nodes do not get it by what they have
// either.

// A CurrentConfig is a rendered config that nodes have; the parts that are not known are left out.
type CurrentConfig struct {
	rollout.CurrentConfig

	// Routes are those of nodes that have it; nil if it was not read.
	Routes *mirrors.Table
}

// A CurrentRoute is the route of an image by a CurrentConfig.
type CurrentRoute struct {
	By    *CurrentConfig
	Route mirrors.Route // zero if it was not read
}

// Equal reports whether two are of the same config and the same route.
func (c CurrentRoute) Equal(other CurrentRoute) bool {
	return c.By.Name == other.By.Name && c.Route.Equal(other.Route)
}

// PoolOr names a pool, which may be none.
func PoolOr(pool string) string {
	if pool == "" {
		return "no pool"
	}
	return "pool " + pool
}
