package simulation

import "github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof"

// Step is the update of one node.
type Step struct {
	Pool string
	Node string
	// Drained says that the node is drained before it is updated.
	Drained bool
	// Moves are the pods that are evicted, in that order.
	Moves []Move
	// Refused are the pods that budgets keep on the node ("namespace/name"), and those that do
	// not end there. The node is updated if there are none.
	Refused []string
	Updated bool
}

// Move is the fate of a pod that is evicted.
type Move struct {
	// Pod is "namespace/name" of the pod, or of the first of the pods in whose place it is.
	Pod string
	// To is where its replacement goes, "" if the scheduler finds no node, or nothing replaces
	// it. Later says that there was no node at first.
	To    string
	Later bool
	// Updated says that node To has its new configuration.
	Updated bool
	Outcome Outcome
	// Image is the one that cannot be pulled where Outcome is ImageFails.
	Image string
}

// Outcome is the end of a Move.
type Outcome string

// The outcomes.
const (
	// Starts: its replacement starts.
	Starts Outcome = "starts"
	// ImageFails: its replacement cannot pull an image.
	ImageFails Outcome = "image fails"
	// Unschedulable: its replacement fits no node.
	Unschedulable Outcome = "unschedulable"
	// Gone: nothing replaces it.
	Gone Outcome = "gone"
)

// Stall is a drain that cannot finish.
type Stall struct {
	// Pool and Node are whose drain does not end.
	Pool string
	Node string
	// Pod is one that cannot be evicted ("namespace/name"), and Budgets are those that keep it
	// there; more than one if the pod has more than one, which no eviction survives. There is
	// none where the drain waits for a pod that was evicted or deleted and does not end.
	Pod     string
	Budgets []string
	// Image is one that keeps a pod of the budget from starting, "" if no image causes the
	// stall. Missing are the pods of the budget that are not ready and why.
	Image   string
	Missing []proof.Missing
	// Why is the reason where it is not pods that are missing: the budget asks for as many as
	// there are.
	Why string
	// ByImage says that the drain would end if every pull worked.
	ByImage bool
	// Possible says that it cannot be excluded, but the simulated steps do not come here, or nothing
	// shows that a pod will not end.
	Possible bool

	budget int
}
