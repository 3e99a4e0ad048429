package v1alpha1

// A Forecast is the rollout that a change begins.
type Forecast struct {
	// Summary is the forecast in one line, as the end of a sentence about the change.
	Summary string `json:"summary"`
	// Hosted is set for a cluster whose nodes follow a NodePool; nothing else is known then.
	Hosted bool       `json:"hosted,omitempty"`
	Pools  []PoolStep `json:"pools"`
	// Unmanaged are the nodes that no pool updates.
	Unmanaged []UnmanagedNode `json:"unmanaged,omitempty"`
	// Time is how long the pools take, all at once.
	Time Span `json:"time"`
	// Recent are other mirror objects that were changed shortly before.
	Recent []string `json:"recent,omitempty"`
	// Unknown names what could not be read of the cluster.
	Unknown []string `json:"unknown,omitempty"`
	// Simulation is the rollout played to its end; null if no node is drained, or too little
	// is known.
	Simulation *Simulation `json:"simulation"`
}

// A PoolStep is the part of a pool in a rollout.
type PoolStep struct {
	Name string `json:"name"`
	// Part is "takes", "unchanged", "unselected", "empty", "paused", "deleted", "stopped",
	// "invalid" or "unreadable"; Why says so in words where it needs some.
	Part string `json:"part"`
	Why  string `json:"why,omitempty"`
	// Decision is what MCO does on each node, in words; Drains and Reboots are parts of it,
	// and Reasons say why it drains.
	Decision string   `json:"decision"`
	Drains   bool     `json:"drains"`
	Reboots  bool     `json:"reboots"`
	Reasons  []string `json:"reasons,omitempty"`
	// Nodes are in the order in which MCO takes them.
	Nodes []string `json:"nodes"`
	// MaxUnavailable is how many may be unavailable at once, Capacity how many are updated at
	// once.
	MaxUnavailable int    `json:"maxUnavailable"`
	Capacity       int    `json:"capacity"`
	After          string `json:"after,omitempty"` // the pool that has to be done first
	Time           Span   `json:"time"`
}

// An UnmanagedNode is a node that no pool updates.
type UnmanagedNode struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// A Span is a range of times in seconds.
type Span struct {
	MinSeconds float64 `json:"minSeconds"`
	MaxSeconds float64 `json:"maxSeconds"`
}

// A Simulation is a rollout played to its end.
type Simulation struct {
	// Partial is set if time was up before the simulation was done: it then proves nothing.
	Partial bool `json:"partial"`
	// Finishes says that all nodes are updated, wherever the scheduler puts pods; neither it nor Stalls if that
	// cannot be told.
	Finishes bool `json:"finishes"`
	// Waiting are the nodes that MCO does not take until somebody has seen to them, or why it takes none
	// of a pool, as clauses ("node worker-2 is not ready"). They are in no step, but for those that failed before and may fail again.
	Waiting []string `json:"waiting,omitempty"`
	// Steps are played with choices of the scheduler that do harm.
	Steps  []Step  `json:"steps"`
	Stalls []Stall `json:"stalls"`
	// Obstacles are what drains meet, whatever the images.
	Obstacles []Obstacle `json:"obstacles"`
}

// A Step is the update of one node.
type Step struct {
	Pool string `json:"pool"`
	Node string `json:"node"`
	// Drained says that the node is drained before it is updated.
	Drained bool `json:"drained,omitempty"`
	// Moves are the pods that are evicted, in that order.
	Moves []Move `json:"moves,omitempty"`
	// Refused are the pods that budgets keep on the node ("namespace/name"), and those that do
	// not end there. The node is updated if there are none.
	Refused []string `json:"refused,omitempty"`
	Updated bool     `json:"updated"`
	Text    string   `json:"text"` // the step in words
}

// A Move is the eviction of a pod, with the fate of its replacement.
type Move struct {
	// Pod is "namespace/name" of the pod, or of the first of the pods in whose place it is.
	Pod string `json:"pod"`
	// To is where its replacement goes, "" if the scheduler finds no node, or nothing replaces
	// it. Later says that there was no node at first.
	To    string `json:"to,omitempty"`
	Later bool   `json:"later,omitempty"`
	// Updated says that node To has its new configuration.
	Updated bool `json:"updated,omitempty"`
	// Outcome is "starts", "image fails", "unschedulable" or "gone": nothing replaces it.
	Outcome string `json:"outcome"`
	// Image is the one that cannot be pulled where Outcome is "image fails".
	Image string `json:"image,omitempty"`
}

// A Stall is a drain that does not end.
type Stall struct {
	// Pool and Node are whose drain does not end.
	Pool string `json:"pool"`
	Node string `json:"node"`
	// Pod is one that cannot be evicted ("namespace/name"), and Budgets are those that keep it
	// there; more than one if the pod has more than one, which no eviction survives. There is
	// none where the drain waits for a pod that was evicted or deleted and does not end.
	Pod     string   `json:"pod"`
	Budgets []string `json:"budgets"`
	// Image is one that keeps a pod of the budget from starting, "" if no image causes the
	// stall. Missing are the pods of the budget that are not ready and why.
	Image   string    `json:"image,omitempty"`
	Missing []Missing `json:"missing,omitempty"`
	// Why is the reason where it is not pods that are missing: the budget asks for as many as
	// there are.
	Why string `json:"why,omitempty"`
	// ByImage says that the drain would end if every pull worked.
	ByImage bool `json:"byImage"`
	// Possible says that it cannot be excluded, but the simulated steps do not come here, or nothing
	// shows that a pod will not end.
	Possible bool   `json:"possible,omitempty"`
	Text     string `json:"text"` // the stall in words
}

// A Missing is a pod that a budget counts as not ready.
type Missing struct {
	Pod string `json:"pod"`
	// Node is where it is, "" if it is on none. Updated says that the node has its new
	// configuration; Moved that the pod is the replacement of one that was evicted.
	Node    string `json:"node,omitempty"`
	Updated bool   `json:"updated,omitempty"`
	Moved   bool   `json:"moved,omitempty"`
	// Image is the one that it cannot pull, Why any other reason, as a clause.
	Image string `json:"image,omitempty"`
	Why   string `json:"why,omitempty"`
}

// An Obstacle is a hindrance that drains meet with any change that drains nodes.
type Obstacle struct {
	// Kind is "more than one budget", "no eviction" or "cannot move".
	Kind string `json:"kind"`
	// Budgets are those that it is about ("namespace/name"), if any.
	Budgets []string `json:"budgets,omitempty"`
	// Pods are those that it is about ("namespace/name"), and Nodes where they are.
	Pods  []string `json:"pods"`
	Nodes []string `json:"nodes"`
	// Why is the reason, as a clause, and Help what would help, as an order.
	Why  string `json:"why"`
	Help string `json:"help,omitempty"`
	// Router says that pods are those of an ingress controller.
	Router bool   `json:"router,omitempty"`
	Text   string `json:"text"` // the obstacle in words
}
