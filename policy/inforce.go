package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// newInForce returns the plan of set, the configuration in force, with the routes of all nodes and no Reroutes yet.
func newInForce(set mirrors.Set, known *Cluster, s Settings) Plan {
	p := Plan{Total: known.Images.Len(), settings: s.forNoChange(), known: known, site: known.site()}
	var unread []Gap
	p.routes, p.Rejected, unread = routesInForce(set, known)
	p.Gaps = slices.Concat(known.Gaps, known.unreadConfigs(), unread)
	return p
}

// routesInForce returns the routes of all nodes, and before them those of a cluster in which nothing leads to mirrors: what the
// objects in force give each variant, and what nodes that lag behind have. Where MCO rejects the objects, nodes have the
// configuration applied last. If that is not known, it is a gap, and they may have that of the objects.
func routesInForce(set mirrors.Set, known *Cluster) (routes []poolRoutes, rejected *mirrors.Rejection, unread []Gap) {
	add := func(pools []string, table *mirrors.Table) {
		bare := table.WithoutMirrors(set)
		r := resolution{before: bare, objects: table, after: table}
		routes = append(routes, poolRoutes{pools, r, r.ownPolicies()})
	}
	inForce := cmp.Or(known.InForce, mirrors.NewTables(set))
	for _, v := range set.Variants() {
		pool := v.Set.Pool
		table, err := inForce.Resolve(pool)
		if errors.As(err, &rejected) {
			if table, err = inForce.ResolveApplied(pool); err != nil {
				unread = []Gap{unreadApplied(rejected, err)}
				table, _ = inForce.ResolveUnchecked(pool)
			}
		}
		if table != nil {
			add(v.Pools, table)
		}
	}
	for i := range known.Current {
		table := known.Current[i].Routes
		if table != nil && !slices.ContainsFunc(routes, func(r poolRoutes) bool { return sameRoutes(r.after, table) }) {
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
func (c *Cluster) unreadConfigs() []Gap {
	var gaps []Gap
	for _, config := range c.Current {
		if config.Routes == nil && config.Lags {
			gaps = append(gaps, Gap{
				Source: "machineconfigs", Kind: MachineConfigKind, Unread: true, Remedy: ReadMachineConfigs,
				Detail: fmt.Sprintf("%s, by which nodes of %s still pull, was not read", config.Name, poolOr(config.Pool)),
			})
		}
	}
	return gaps
}
