package status

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// IfPaused says in lines what follows when a pool is paused, or is no longer. The pool has to
// be there.
func IfPaused(in Input, name string, paused bool) []string {
	pools := slices.Clone(in.Cluster.Pools)
	for i, p := range pools {
		if p.Name == name {
			changed := *p
			changed.Spec.Paused = paused
			pools[i] = &changed
		}
	}
	in.Cluster.Pools = pools
	s := Of(in)
	i := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	lines := s.Pools[i].resumedLines(!slices.Contains(in.Cluster.Unknown, "nodes"))
	if paused {
		lines = s.Pools[i].pausedLines(in)
	}
	return Printable(append(lines, s.Hiding...))
}

// pausedLines are about a pool that is going to be paused.
func (p *Pool) pausedLines(in Input) []string {
	var underWay, waiting []string
	for _, n := range p.Left {
		switch {
		case n.State == NodeWaits:
			waiting = append(waiting, n.Name)
		case n.IsUnderWay() || n.State == NodeDegraded:
			underWay = append(underWay, n.Name)
		}
	}
	lines := []string{"no node is given another config until the pool is resumed, whatever changes: mirrors, certificates, the OS"}
	if len(underWay) > 0 {
		lines = append(lines, fmt.Sprintf("%s that the update has reached go on with it: %s", text.Count(len(underWay), "node"), text.Names(underWay, Shown)))
	}
	if len(waiting) > 0 {
		lines = append(lines, fmt.Sprintf("%s without %s: %s", text.Plural(len(waiting), "node stays", "nodes stay"), p.Target, text.Names(waiting, Shown)))
	}
	return append(lines, in.Cluster.SignerLine(), fmt.Sprintf("an update of the cluster cannot finish while pool %s is paused", p.Name))
}

// resumedLines are about a pool that is going to be resumed, all of whose nodes may be known.
func (p *Pool) resumedLines(known bool) []string {
	if !known && p.From == "" {
		return []string{"whether anything waits for its nodes is not known"}
	}
	if p.From == "" {
		return []string{"nothing waits for its nodes: none is touched"}
	}
	waiting := 0
	for _, n := range p.Left {
		waiting += convert.Int(n.State == NodeWaits)
	}
	waits := fmt.Sprintf("%s waits for %s", p.Target, text.Count(waiting, "node"))
	if !known {
		waits = fmt.Sprintf("%s waits for nodes, and how many there are is not known", p.Target)
	}
	lines := append([]string{waits}, p.changeLines()...)
	switch {
	case p.Held != "":
		lines = append(lines, "no node is taken: "+p.Held)
	case p.Remaining.Max > 0:
		lines = append(lines, fmt.Sprintf("it takes %s, if nothing holds a drain up", p.Remaining))
	}
	return lines
}
