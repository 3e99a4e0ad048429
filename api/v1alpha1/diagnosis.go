package v1alpha1

// A Diagnosis says why nodes and pools do not move.
type Diagnosis struct {
	// Findings are those of the cluster first, then those of pools, then those of nodes, in
	// the order of a Status; each cause once. There are none where nothing is known to be held up.
	Findings []HoldUp `json:"findings"`
	// Unknown names the unread objects that may hide a hold-up: without findings, it cannot be told
	// whether all is well.
	Unknown []string `json:"unknown,omitempty"`
	// Notes say what else is not known, or is out of the ordinary without holding anything up.
	Notes []string `json:"notes,omitempty"`
}

// A HoldUp is one cause that holds nodes or a pool up.
type HoldUp struct {
	Cause string `json:"cause"`
	// Pool is "" for what concerns all; Node is "" for what concerns a pool. AlsoNodes are the
	// other nodes that the same cause holds up.
	Pool      string   `json:"pool,omitempty"`
	Node      string   `json:"node,omitempty"`
	AlsoNodes []string `json:"alsoNodes,omitempty"`
	// Chain leads from the symptom to the cause, a link each, with its evidence.
	Chain []string `json:"chain"`
	// Unexplained is set where the chain ends before a cause.
	Unexplained bool `json:"unexplained,omitempty"`
	// Remedies are what can be done, the safest first.
	Remedies []Remedy `json:"remedies"`

	// Passing says that this is so for some seconds in a rollout that goes its way, too.
	Passing bool `json:"passing,omitempty"`
}

// A Remedy is something to do, with the command for it, and what that brings about.
type Remedy struct {
	Command string `json:"command"`
	Effect  string `json:"effect"`
	// ReadOnly says that the command shows something, and changes nothing.
	ReadOnly bool `json:"readOnly,omitempty"`
}
