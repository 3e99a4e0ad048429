package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// nodesHave returns the routes of nodes while MCO rejects s, the configuration in force;
// nil if they are not known.
func nodesHave(s mirrors.Set) *mirrors.Table {
	if s.Applied == nil {
		return nil
	}
	table, err := mirrors.ResolveApplied(s)
	if err != nil {
		return nil
	}
	return table
}

// unconfigured returns the routes of a cluster that has no mirrors and no registry lists.
func unconfigured() *mirrors.Table {
	table, _ := mirrors.ResolveUnchecked(mirrors.Set{}) // it always resolves
	return table
}
