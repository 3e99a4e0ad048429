package rollout

import (
	"cmp"
	"slices"
	"strings"
)

// CurrentConfig is a rendered config that nodes have.
type CurrentConfig struct {
	Name string
	// Pool is that of the nodes, "" if no pool updates them.
	Pool string
	// Lags is set if it is not the one that the nodes are to have: they have not taken the last
	// changes.
	Lags bool
}

// CurrentConfigs returns the rendered configs that nodes of c have, sorted, each once for each pool.
// Where a pool says that it has more nodes than are known, that which its nodes had last counts.
// Names may be anything, as in a Report.
func (c Cluster) CurrentConfigs() []CurrentConfig {
	m := newMembership(c.Pools, c.Nodes)
	var all []CurrentConfig
	add := func(pool, name, wanted string) {
		if name != "" {
			all = append(all, CurrentConfig{name, pool, wanted != "" && name != wanted})
		}
	}
	for _, pool := range c.Pools {
		wanted := pool.Spec.Configuration.Name
		for _, n := range m.nodes[pool.Name] {
			add(pool.Name, ReportOf(n).Current, wanted)
		}
		if len(m.nodes[pool.Name]) < int(pool.Status.MachineCount) {
			add(pool.Name, pool.Status.Configuration.Name, wanted)
		}
	}
	unmanaged := map[string]bool{}
	for _, u := range m.unmanaged {
		unmanaged[u.Node] = true
	}
	for _, n := range c.Nodes {
		if r := ReportOf(n); unmanaged[n.Name] {
			add("", r.Current, r.Desired)
		}
	}
	slices.SortFunc(all, func(a, b CurrentConfig) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Pool, b.Pool))
	})
	return slices.Compact(all)
}
