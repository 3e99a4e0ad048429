package policy

import (
	"slices"

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

// mends reports whether MCO rejects the configuration in force, and not the new one.
func (p *Plan) mends() bool { return p.RejectedBefore != nil && p.Rejected == nil }

// compareUnknown is compare where it is not known what nodes do today: it adds the images
// for which after holds anything, and those for which the objects said something else
// before. An image about which neither has anything to say is pulled from its source; that
// nodes have a mirror for it of which no object is left cannot be told.
func (p *Plan) compareUnknown(images []Image, objects, after *mirrors.Table, s mirrors.Set) {
	bare := unconfigured()
	p.compare(images, bare, after, s)
	seen := map[string]bool{}
	for _, i := range p.Reroutes {
		seen[i.Image.Ref] = true
	}
	for _, img := range p.Malformed {
		seen[img.Ref] = true
	}
	rest := slices.DeleteFunc(slices.Clone(images), func(img Image) bool { return seen[img.Ref] })
	p.compare(rest, objects, after, s)
	for i := range p.Reroutes {
		p.Reroutes[i].Before, p.Reroutes[i].BeforeUnknown, p.Reroutes[i].HiddenBy = mirrors.Route{}, true, ""
	}
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
