package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Reach is the answer to the question whether a Goal is reached.
type Reach struct {
	Reached bool
	// Missing is a clause about the parts still missing, "" if it is reached or not known.
	Missing string
	// Unknown says why it cannot be told, "" if it can.
	Unknown string
	// Well are how many nodes have what the objects ask for, of Nodes.
	Well, Nodes int
}

// ReachOf says whether goal is reached. It rests on what nodes have and what the mirror
// objects in force ask for, so that a change which MCO has not noticed yet counts as missing.
// Pods play no part in it.
func ReachOf(in Input, goal Goal) Reach {
	v := newVerification(in)
	v.verifyNodes()
	r := Reach{}
	var notWell, notKnown []string
	for _, n := range v.Nodes {
		if !goal.counts(n.Pool) || v.isUnselected(n.Pool) {
			continue
		}
		r.Nodes++
		switch n.Result {
		case Well:
			r.Well++
		case NotWell:
			notWell = append(notWell, n.Node)
		default:
			notKnown = append(notKnown, fmt.Sprintf("node %s: %s", n.Node, n.Why))
		}
	}
	r.Missing = v.missingFor(goal, r, notWell)
	unmanaged := strings.Join(text.First(v.Unknown, 1, "node"), ", ")
	switch {
	case r.Missing != "":
	case len(notKnown) > 0 && !goal.OnlyPins():
		r.Unknown = text.First(notKnown, 1, "node")[0]
	case slices.Contains(in.Cluster.Unknown, "nodes"):
		r.Unknown = "nodes could not be read"
	case len(in.Cluster.Nodes) == 0:
		r.Unknown = "no node is known"
	case len(v.Nodes) == 0 && unmanaged != "": // no pool has nodes, as where a nodeSelector is invalid
		r.Unknown = unmanaged
	case goal.OnlyPins():
	default:
		if r.Missing = v.notUpdated(goal); r.Missing == "" && goal.isOfAll() {
			r.Unknown = unmanaged
		}
	}
	r.Missing, r.Unknown = text.Line(r.Missing), text.Line(r.Unknown)
	r.Reached = r.Missing == "" && r.Unknown == ""
	return r
}

// missingFor names the parts known to be missing.
func (v *verification) missingFor(goal Goal, r Reach, notWell []string) string {
	if goal.Edit != nil {
		if lacking := withPinned(v.Mirrors, v.Cluster).Lacks(*goal.Edit); len(lacking) > 0 {
			return fmt.Sprintf("in the cluster, %s not as the file says: %s", text.Plural(len(lacking), "object is", "objects are"), text.Names(lacking, status.Shown))
		}
	}
	if missing := pinsMissing(goal, v.Cluster); missing != "" {
		return missing
	}
	switch {
	case goal.OnlyPins():
		return ""
	case v.Rejected != "":
		return "MCO rejects the mirror objects: " + v.Rejected
	case len(notWell) == 0:
		return ""
	}
	if pools := v.notRendered(goal); len(pools) > 0 {
		return fmt.Sprintf("MCO has not rendered what the mirror objects ask for yet, for %s", text.Names(pools, status.Shown))
	}
	return fmt.Sprintf("%s of %s what the mirror objects ask for; without: %s",
		text.Number(r.Well), text.Plural(r.Nodes, "node has", "nodes have"), text.Names(notWell, status.Shown))
}

// notRendered returns the pools whose target is not what the objects ask for.
func (v *verification) notRendered(goal Goal) []string {
	var pools []string
	for _, p := range v.Cluster.Pools {
		config := v.Rendered[p.Spec.Configuration.Name]
		if !goal.counts(p.Name) || v.isUnselected(p.Name) || config == nil {
			continue
		}
		if differences, err := v.differences(p.Name, config); err == nil && len(differences) > 0 {
			pools = append(pools, p.Name)
		}
	}
	return pools
}

// isUnselected reports whether a pool never gets what MCO generates for registries.
func (v *verification) isUnselected(pool string) bool {
	return slices.ContainsFunc(v.members.Pools, func(p rollout.Pool) bool { return p.Name == pool && p.Part == rollout.Unselected })
}

// notUpdated says which pools are on their way, unless it is an edit that is waited for:
// that has reached the nodes.
func (v *verification) notUpdated(goal Goal) string {
	if goal.Edit != nil {
		return ""
	}
	var left []string
	for _, p := range status.Of(v.Input.Input).Pools {
		switch {
		case !goal.counts(p.Name), p.State == status.PoolUpdated, p.State == status.PoolPaused && p.From == "":
		default:
			left = append(left, fmt.Sprintf("pool %s is %s: %s", p.Name, p.StateWord(), p.Progress()))
		}
	}
	return strings.Join(text.First(left, status.Shown, "pool"), "; ")
}
