package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// newInForce returns the plan of set, the configuration in force, with the routes of all nodes and no Reroutes yet.
func newInForce(set mirrors.Set, known *Cluster, s settings.Settings) Plan {
	p := Plan{Total: known.Images.Len(), Settings: s.ForNoChange(), Known: known, Site: known.site()}
	var unread []policy.Gap
	p.Routes, p.Rejected, unread = routesInForce(set, known)
	p.Gaps = slices.Concat(known.Gaps, known.unreadConfigs(), unread)
	return p
}

// routesInForce returns the routes of all nodes, and before them those of a cluster in which nothing leads to mirrors: what the
// objects in force give each variant, and what nodes that lag behind have. Where MCO rejects the objects, nodes have the
// configuration applied last. If that is not known, it is a gap, and they may have that of the objects.
func routesInForce(set mirrors.Set, known *Cluster) (routes []PoolRoutes, rejected *mirrors.Rejection, unread []policy.Gap) {
	add := func(pools []string, table *mirrors.Table) {
		bare := table.WithoutMirrors(set)
		r := resolution{before: bare, objects: table, After: table}
		routes = append(routes, PoolRoutes{pools, r, r.ownPolicies()})
	}
	inForce := cmp.Or(known.InForce, mirrors.NewTables(set))
	for _, v := range set.Variants() {
		pool := v.Set.Pool
		table, err := inForce.Resolve(pool)
		if errors.As(err, &rejected) {
			if table, err = inForce.ResolveApplied(pool); err != nil {
				unread = []policy.Gap{unreadApplied(rejected, err)}
				table, _ = inForce.ResolveUnchecked(pool)
			}
		}
		if table != nil {
			add(v.Pools, table)
		}
	}
	for i := range known.Current {
		table := known.Current[i].Routes
		if table != nil && !slices.ContainsFunc(routes, func(r PoolRoutes) bool { return sameRoutes(r.After, table) }) {
			add([]string{known.Current[i].Pool}, table)
		}
	}
	return routes, rejected, unread
}

// sameRoutes reports whether nodes are sure to do the same by two tables.
func sameRoutes(a, b *mirrors.Table) bool {
	changed := mirrors.CompareScopes(a, b)
	return !changed.Everything && len(changed.Scopes) == 0
}

// unreadConfigs are the rendered configs of nodes that lag behind by which it is not known what they
// pull.
func (c *Cluster) unreadConfigs() []policy.Gap {
	var gaps []policy.Gap
	for _, config := range c.Current {
		if config.Routes == nil && config.Lags {
			gaps = append(gaps, policy.Gap{
				Source: "machineconfigs", Kind: policy.MachineConfigKind, Unread: true, Remedy: policy.ReadMachineConfigs,
				Detail: fmt.Sprintf("%s, by which nodes of %s still pull, was not read", config.Name, evidence.PoolOr(config.Pool)),
			})
		}
	}
	return gaps
}

// currentIn returns those of c that nodes of the k-th variant have. Nodes of a pool for which there is
// no variant get what workers get, which are in the first one.
func (c *Cluster) currentIn(k int, variants []mirrors.Variant) []*evidence.CurrentConfig {
	var current []*evidence.CurrentConfig
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
func (r *resolution) differing(current []*evidence.CurrentConfig) []*evidence.CurrentConfig {
	return slices.DeleteFunc(current, func(c *evidence.CurrentConfig) bool {
		return c.Routes != nil && r.before != nil && sameRoutes(r.before, c.Routes)
	})
}

// currentRoutes returns the routes of an image on nodes that lag behind: those that differ from the one
// that the objects in force make, and those that are not known. All other nodes have the objects in
// force.
func currentRoutes(current []*evidence.CurrentConfig, image, namespace string, byObjects mirrors.Route) []evidence.CurrentRoute {
	var routes []evidence.CurrentRoute
	for _, by := range current {
		if by.Routes == nil {
			if by.Lags {
				routes = append(routes, evidence.CurrentRoute{By: by})
			}
			continue
		}
		if route, err := by.Routes.Route(image, namespace); err == nil && !route.Equal(byObjects) {
			routes = append(routes, evidence.CurrentRoute{By: by, Route: route})
		}
	}
	return routes
}
