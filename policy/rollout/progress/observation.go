package progress

import (
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Sight is a view of a cluster.
type Sight struct {
	status.Input
	// Mirrors is the mirror configuration in force, nil if it is not known. It says which
	// objects a rollout comes from.
	Mirrors *mirrors.Set
	// Time is that of the observer's clock; it does not go back.
	Time time.Time
}

// observation is a view of a pool, with the events that come of it.
type observation struct {
	Sight
	pool    *status.Pool
	members map[string]bool // the nodes of all pools
	events  []Event
}

// stages returns the stage of each node of the pool.
func (o *observation) stages() map[string]Stage {
	stages := make(map[string]Stage, len(o.pool.Nodes))
	for _, member := range o.pool.Nodes {
		stages[member.Name] = Done
	}
	for i := range o.pool.Left {
		n := &o.pool.Left[i]
		stages[n.Name] = stageOf(n, o.pool)
	}
	return stages
}

// words say what a node does.
func (o *observation) words(name string, stage Stage) string {
	i := slices.IndexFunc(o.pool.Left, func(n status.Node) bool { return n.Name == name })
	if i < 0 {
		return "is done"
	}
	switch stage {
	case Rebooting:
		return "is rebooting"
	case Updating:
		return "is being updated"
	case Unknown:
		return string(status.NodeSilent)
	default:
		return o.pool.Left[i].String()
	}
}

// objects are the names of those that the pool's rollout comes from, sorted.
func (o *observation) objects() []string {
	if o.Mirrors == nil {
		return nil
	}
	names := convert.Each(Objects(*o.Mirrors, o.pool.Changes), mirrors.NameOf)
	slices.Sort(names)
	return names
}
