package status

import (
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Input is the data for a Status. It is only read.
type Input struct {
	Cluster rollout.Cluster
	// MachineNodes are the MachineConfigNodes, none where the cluster does not serve them.
	MachineNodes []*mcfgv1.MachineConfigNode
	// Rendered are the rendered configs that could be read, by name; Unread is why others
	// could not.
	Rendered map[string]*rollout.Rendered
	Unread   map[string]error
	// Now is the time of a live cluster, by its API server; the zero Time for a dump.
	Now time.Time
	// MirrorsUnknown is why the mirror configuration in force could not be read, nil if it
	// was. Evidence is what was found out by asking. Only package causes goes by them.
	MirrorsUnknown error
	Evidence       Evidence
}

// Status is the progress of the rollouts of a cluster. Times in it are those of the cluster's clocks.
type Status struct {
	// Operator is nil if ClusterOperator machine-config is not known.
	Operator *Operator
	// Pools are master, arbiter and worker, and then the others by name.
	Pools []Pool
	// Unmanaged are the nodes that no pool updates.
	Unmanaged []rollout.Unmanaged
	// Remaining is how long the pools take that are on their way, side by side.
	Remaining rollout.Range
	// Notes list the unknowns, and how to learn them. Hiding are those of them that may conceal that
	// something is held up.
	Notes, Hiding []string
}

// Operator is MCO's report on itself.
type Operator struct {
	Conditions []Condition
}

// Condition is a condition of an object.
type Condition struct {
	Type    string
	Status  string
	Reason  string
	Message string
	Since   *time.Time
}

// Pool is a pool, with its progress.
type Pool struct {
	// Pool is the forecast of the rest of the rollout. Its nodes are all that there are.
	rollout.Pool
	State PoolState
	// Held is what keeps nodes from being taken, in a clause; "" if nothing does.
	Held string
	// The counts are those of the pool's status.
	Machines    int
	Updated     int
	Ready       int
	Unavailable int
	Degraded    int
	// Paused is nil for a pool that is not paused.
	Paused *Paused
	// Current is the rendered config that all nodes have had, Target the one that they are
	// to have.
	Current string
	Target  string
	// From is the config with which Changes compares Target: that of a node that does not
	// have Target yet. "" if all have.
	From string
	// Changes are what differs between the two, nil if there is nothing to compare or one
	// could not be read. Action says what they do to a node: "drains and reloads CRI-O".
	Changes *rollout.Changes
	Action  string
	Drains  bool
	// Conditions are those that are not as they should be.
	Conditions []Condition
	// Left are the nodes that are not done, in the order in which MCO takes them.
	Left []Node
	// Remaining is how long these take, the zero Range if that is not known or none is taken.
	Remaining rollout.Range
}

// PoolState is the condition of a pool, in a word.
type PoolState string

// The states of a pool, the worst first.
const (
	PoolDeleted  PoolState = "being deleted"
	PoolDegraded PoolState = "degraded"
	PoolHeld     PoolState = "held up" // nodes wait, and none is taken
	PoolUpdating PoolState = "updating"
	PoolPaused   PoolState = "paused" // with or without nodes that wait
	PoolUpdated  PoolState = "updated"
	PoolUnknown  PoolState = "unknown" // the nodes are not known, and MCO has not said
)

// Paused is the beginning of a pause and its author, by managed fields.
type Paused struct {
	Since *time.Time
	By    string
	// Lines say what follows from it.
	Lines []string
}

// Node is a node that is not done.
type Node struct {
	rollout.Node
	rollout.Report
	// State is what happens on the node, or what it waits for; Report.State is that of its daemon.
	State NodeState
	// Since is when the update of the node began, nil if it is not known.
	Since *time.Time
	// Cordoned is nil for a node that takes pods.
	Cordoned *Cordoned
	// Conditions are those of the node that are not as they should be, and those of its
	// MachineConfigNode that say how far it is.
	Conditions []Condition
}

// CordonedAt is when the node was cordoned, the first thing that a drain does; the zero Time if that is not
// known.
func (n *Node) CordonedAt() time.Time {
	if n.Cordoned == nil || n.Cordoned.Since == nil {
		return time.Time{}
	}
	return *n.Cordoned.Since
}

// NodeState is the condition of a node, in words that complete "the node".
type NodeState string

// The states of a node that is not done.
const (
	NodeWaits       NodeState = "waits for its turn"
	NodeDraining    NodeState = "is being drained"
	NodeApplying    NodeState = "is drained and being updated"
	NodeUpdating    NodeState = "is being updated"
	NodeDegraded    NodeState = "is degraded"
	NodeUnavailable NodeState = "is done, but not available"
	NodeSilent      NodeState = "has not been reported on by its daemon"
)

// IsUnderWay reports whether MCO has taken the node, and its daemon is at work.
func (n *Node) IsUnderWay() bool {
	return n.State == NodeDraining || n.State == NodeApplying || n.State == NodeUpdating
}

// Cordoned is the time of a cordon and its author, by managed fields.
type Cordoned struct {
	Since *time.Time
	By    string
}
