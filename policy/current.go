package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
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

// A currentRoute is the route of an image by a CurrentConfig.
type currentRoute struct {
	by    *CurrentConfig
	route mirrors.Route // zero if it was not read
}

func (c currentRoute) equal(other currentRoute) bool {
	return c.by.Name == other.by.Name && c.route.Equal(other.route)
}

// currentIn returns those of c that nodes of the k-th variant have. Nodes of a pool for which there is
// no variant get what workers get, which are in the first one.
func (c *Cluster) currentIn(k int, variants []mirrors.Variant) []*CurrentConfig {
	var current []*CurrentConfig
	for i := range c.Current {
		pool := c.Current[i].Pool
		of := max(0, slices.IndexFunc(variants, func(v mirrors.Variant) bool { return slices.Contains(v.Pools, pool) }))
		if pool == "" || of == k {
			current = append(current, &c.Current[i])
		}
	}
	return current
}

// differing returns those of current whose routes may not be those of today by the objects in force.
func (r *resolution) differing(current []*CurrentConfig) []*CurrentConfig {
	return slices.DeleteFunc(current, func(c *CurrentConfig) bool {
		return c.Routes != nil && r.before != nil && sameRoutes(r.before, c.Routes)
	})
}

// currentRoutes returns the routes of an image on nodes that lag behind: those that differ from the one
// that the objects in force make, and those that are not known. All other nodes have the objects in
// force.
func currentRoutes(current []*CurrentConfig, image, namespace string, byObjects mirrors.Route) []currentRoute {
	var routes []currentRoute
	for _, by := range current {
		if by.Routes == nil {
			if by.Lags {
				routes = append(routes, currentRoute{by: by})
			}
			continue
		}
		if route, err := by.Routes.Route(image, namespace); err == nil && !route.Equal(byObjects) {
			routes = append(routes, currentRoute{by, route})
		}
	}
	return routes
}

// otherRoutes returns the routes that nodes may take today beside Before.
func (r *Reroute) otherRoutes() []*mirrors.Route {
	var routes []*mirrors.Route
	rare := r.rarely()
	for i := range rare.maybe {
		routes = append(routes, &rare.maybe[i])
	}
	for i := range rare.current {
		if rare.current[i].by.Routes != nil {
			routes = append(routes, &rare.current[i].route)
		}
	}
	return routes
}

// outcomeToday returns the outcome of a pull today, which is Unsure where it is not the same for all
// nodes, or not known.
func (a *assessment) outcomeToday() Outcome {
	outcome := a.oldRoute.pull(false)
	if a.BeforeUnknown {
		return Unsure
	}
	for _, c := range a.rarely().current {
		if c.by.Routes == nil {
			return Unsure
		}
		if today := a.weigh(&c.route, a.found, true); today.pull(false) != outcome {
			return Unsure
		}
	}
	return outcome
}

// today is proof that all routes that nodes take today are known, and that holds is true of each.
func (a *assessment) today(holds func(*weighedRoute) bool) proof {
	if a.BeforeUnknown || !holds(&a.oldRoute) {
		return proof{}
	}
	for _, c := range a.rarely().current {
		if c.by.Routes == nil {
			return proof{}
		}
		if today := a.weigh(&c.route, a.found, true); !holds(&today) {
			return proof{}
		}
	}
	return proof{true}
}

// byObjects returns a as if all nodes had what the objects in force say.
func (a *assessment) byObjects() *assessment {
	b, r, rare := *a, *a.Reroute, a.rarely()
	rare.current = nil
	r.setRare(rare)
	b.Reroute = &r
	return &b
}

// tellCurrent adds to f, a denial only because nodes lag behind the objects in force, the configs that
// they have, and a remedy for those that were not read.
func (a *assessment) tellCurrent(f *Finding) {
	var lines, remedies []string
	for _, c := range a.rarely().current {
		by := c.by
		line := fmt.Sprintf("nodes of %s do not have the objects in force yet, but MachineConfig %s", poolOr(by.Pool), by.Name)
		if by.Routes == nil {
			line += ", which was not read"
			remedies = append(remedies, fmt.Sprintf("let the guard read MachineConfig %s, or add it to the dump: it shows whether nodes get the image today", by.Name))
		} else {
			line += ", by which they look for it at " + cmp.Or(strings.Join(refsOf(c.route.Open()), ", then "), "no place")
		}
		lines = append(lines, line)
	}
	f.Detail, f.Remedy = append(slices.Clone(f.Detail), lines...), append(slices.Clone(f.Remedy), remedies...)
}

func poolOr(pool string) string {
	if pool == "" {
		return "no pool"
	}
	return "pool " + pool
}

func refsOf(places []mirrors.Location) []string {
	return convert.Each(places, func(l mirrors.Location) string { return l.Ref })
}
