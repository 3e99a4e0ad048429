package policy

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

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

// withUnknownBefore makes findings about a configuration that is mended say why the change
// reroutes so much.
func (p Plan) withUnknownBefore(findings []Finding) []Finding {
	for i, f := range findings {
		if p.BeforeUnknown && f.Reason == rejected {
			findings[i].Reason = rejectedUnknown
			findings[i].Detail = append(f.Detail, "MachineConfig "+mirrors.GeneratedRegistries+", which says what nodes have, was not read")
		}
	}
	return findings
}

const rejectedUnknown = "the configuration in force was rejected and what nodes have is not known: all of the new one is verified"
