package verify

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// withPinned returns s with the PinnedImageSets of c, which are followed, where s was read once.
func withPinned(s mirrors.Set, c rollout.Cluster) mirrors.Set {
	s.Pinned = convert.Each(c.PinnedSets, func(set *mcfgv1.PinnedImageSet) mirrors.Object { return set })
	return s
}

// pinsMissing says which nodes do not hold the PinnedImageSets of a goal, "" if all do.
func pinsMissing(goal Goal, c rollout.Cluster) string {
	wanted := goal.PinnedSets()
	if len(wanted) == 0 {
		return ""
	}
	nodes, lacking := 0, []string{}
	failed := ""
	for _, p := range c.Pinnings() {
		if !slices.Contains(wanted, p.Set.Name) || !goal.counts(p.Pool) {
			continue
		}
		nodes++
		if p.Missing == "" {
			continue
		}
		lacking = append(lacking, fmt.Sprintf("%s %s (PinnedImageSet %s)", p.Node, p.Missing, p.Set.Name))
		if p.Failed && failed == "" {
			failed = lacking[len(lacking)-1]
		}
	}
	without := goal.untaken(wanted, c)
	switch {
	case len(without) > 0 && len(goal.Pools) == 0:
		return fmt.Sprintf("no pool takes %s: the labels of a PinnedImageSet choose the pool", namedSets(without))
	case len(without) == len(wanted):
		return fmt.Sprintf("none of these pools takes %s", namedSets(without))
	case len(lacking) == 0:
		return ""
	case failed != "":
		return fmt.Sprintf("%s of %s; %s", text.Number(nodes-len(lacking)), pinsHeld(nodes), failed)
	default:
		return fmt.Sprintf("%s of %s; %s", text.Number(nodes-len(lacking)), pinsHeld(nodes), strings.Join(text.First(lacking, 1, "node"), "; "))
	}
}

// untaken returns the wanted sets that no pool that counts takes. A pool without nodes, as worker of a compact cluster, takes its
// sets, but no node pulls them.
func (g Goal) untaken(wanted []string, c rollout.Cluster) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
		return slices.ContainsFunc(c.PinnedSets, func(set *mcfgv1.PinnedImageSet) bool {
			return set.Name == name && slices.ContainsFunc(c.Pools, func(p *mcfgv1.MachineConfigPool) bool {
				return g.counts(p.Name) && rollout.TakesPinnedSet(p, set)
			})
		})
	})
}

// pinsHeld counts sets on nodes: a node with two sets has two.
func pinsHeld(n int) string {
	return text.Plural(n, "PinnedImageSet on a node is held", "PinnedImageSets on nodes are held")
}

func namedSets(names []string) string {
	if len(names) == 1 {
		return "PinnedImageSet " + names[0]
	}
	return "PinnedImageSets " + text.Names(names, status.Shown)
}
