package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// note notes the unknowns.
func (in *Input) note(s *Status) {
	add := func(words string, hides bool) {
		s.Notes = append(s.Notes, words)
		if hides {
			s.Hiding = append(s.Hiding, words)
		}
	}
	for _, resource := range in.Cluster.Unknown {
		if lacking := lacks[resource]; lacking != "" {
			add(in.UnreadText(resource, lacking), resource == "nodes")
		}
	}
	for _, p := range s.Pools {
		if p.From != "" && p.Changes == nil {
			add(in.unreadNote(p), false)
		}
		if !slices.Contains(in.Cluster.Unknown, "nodes") && len(p.Nodes) != p.Machines {
			add(fmt.Sprintf("pool %s counts %d machines, and %d of its nodes are there: its status is out of date, or not all was read", p.Name, p.Machines, len(p.Nodes)), true)
		}
	}
}

// lacks says, by resource, which statement is missing without it.
var lacks = map[string]string{
	"nodes":                 "which node waits for what is not known",
	"clusteroperators":      "what the operator says of itself is not known",
	"machineconfigurations": "node actions are assumed to be MCO's defaults",
	"infrastructures":       "whether there is a single node, which is not drained, is not known",
	"pods":                  "which node MCO runs on, and takes last, is not known",
	"machineconfignodes":    "how far a node is in its update is not known",
}

// UnreadText says that a resource could not be read, the consequence and, for a live cluster, the right
// that it takes.
func (in *Input) UnreadText(resource, lacking string) string {
	words := fmt.Sprintf("%s could not be read: %s", resource, lacking)
	if in.Now.IsZero() {
		return words
	}
	return words + fmt.Sprintf(" (it takes the right to list and watch %s)", rollout.QualifiedResource(resource))
}

func (in *Input) unreadNote(p Pool) string {
	for _, name := range []string{p.From, p.Target} {
		if err := in.Unread[name]; err != nil {
			return fmt.Sprintf("pool %s: cannot tell what changes, or whether nodes are drained: %v", p.Name, err)
		}
	}
	return fmt.Sprintf("pool %s: cannot tell what changes, or whether nodes are drained: MachineConfigs %s and %s were not read", p.Name, p.From, cmp.Or(p.Target, "(none)"))
}
