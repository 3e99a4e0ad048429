package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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

// OtherRoutes returns the routes that nodes may take today beside Before.
func (r *Reroute) OtherRoutes() []*mirrors.Route {
	var routes []*mirrors.Route
	rare := r.Rarely()
	for i := range rare.Maybe {
		routes = append(routes, &rare.Maybe[i])
	}
	for i := range rare.Current {
		if rare.Current[i].By.Routes != nil {
			routes = append(routes, &rare.Current[i].Route)
		}
	}
	return routes
}

// OutcomeToday returns the outcome of a pull today, which is Unsure where it is not the same for all
// nodes, or not known.
func (a *Case) OutcomeToday() Outcome {
	outcome := a.OldRoute.Pull(false)
	if a.BeforeUnknown {
		return Unsure
	}
	for _, c := range a.Rarely().Current {
		if c.By.Routes == nil {
			return Unsure
		}
		if today := a.Weigh(&c.Route, a.Found, true); today.Pull(false) != outcome {
			return Unsure
		}
	}
	return outcome
}

// today is proof that all routes that nodes take today are known, and that holds is true of each.
func (a *Case) today(holds func(*WeighedRoute) bool) Proof {
	if a.BeforeUnknown || !holds(&a.OldRoute) {
		return Proof{}
	}
	for _, c := range a.Rarely().Current {
		if c.By.Routes == nil {
			return Proof{}
		}
		if today := a.Weigh(&c.Route, a.Found, true); !holds(&today) {
			return Proof{}
		}
	}
	return Proof{true}
}

// ByObjects returns a as if all nodes had what the objects in force say.
func (a *Case) ByObjects() *Case {
	b, r, rare := *a, *a.Reroute, a.Rarely()
	rare.Current = nil
	r.SetRare(rare)
	b.Reroute = &r
	return &b
}

// TellCurrent adds to f, a denial only because nodes lag behind the objects in force, the configs that
// they have, and a remedy for those that were not read.
func (a *Case) TellCurrent(f *policy.Finding) {
	var lines, remedies []string
	for _, c := range a.Rarely().Current {
		by := c.By
		line := fmt.Sprintf("nodes of %s do not have the objects in force yet, but MachineConfig %s", PoolOr(by.Pool), by.Name)
		if by.Routes == nil {
			line += ", which was not read"
			remedies = append(remedies, fmt.Sprintf("let the guard read MachineConfig %s, or add it to the dump: it shows whether nodes get the image today", by.Name))
		} else {
			line += ", by which they look for it at " + cmp.Or(strings.Join(refsOf(c.Route.Open()), ", then "), "no place")
		}
		lines = append(lines, line)
	}
	f.Detail, f.Remedy = append(slices.Clone(f.Detail), lines...), append(slices.Clone(f.Remedy), remedies...)
}

// PoolOr names a pool, which may be none.
func PoolOr(pool string) string {
	if pool == "" {
		return "no pool"
	}
	return "pool " + pool
}

func refsOf(places []mirrors.Location) []string {
	return convert.Each(places, func(l mirrors.Location) string { return l.Ref })
}
