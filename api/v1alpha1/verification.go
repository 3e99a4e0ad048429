package v1alpha1

// A Verification says whether nodes have what the mirror objects ask for.
type Verification struct {
	Result string `json:"result"`
	// Rejected is why MCO applies none of the objects, "" if it does.
	Rejected string `json:"rejected,omitempty"`
	// Nodes are all that pools update, by name.
	Nodes []NodeConfig `json:"nodes"`
	// Pulls are the images that nodes fail to pull.
	Pulls []PullFailure `json:"pulls"`
	// Left are the open tasks; Unknown what could not be told.
	Left    []Task   `json:"left,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
	// NotCompared lists what the objects ask for and nodes do not report. Result ignores it.
	NotCompared []string `json:"notCompared,omitempty"`
}

// A Task is something left to do: a sentence, and the command for it, if there is one.
type Task struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

// A NodeConfig is the comparison of a node with the objects.
type NodeConfig struct {
	Node string `json:"node"`
	Pool string `json:"pool"`
	// Config is the rendered config that the node says it has.
	Config string `json:"config"`
	Result string `json:"result"`
	// Why says what is wrong, or unknown.
	Why string `json:"why,omitempty"`
	// Differences are the entries of registries.conf, policy.json and registries.d that the
	// objects make (After) and those that the node has (Before).
	Differences []RegistryChange `json:"differences,omitempty"`
}

// A PullFailure is an image that nodes fail to pull.
type PullFailure struct {
	Image  string `json:"image"`
	Reason string `json:"reason"`
	// Pods are "namespace/name on node", sorted.
	Pods []string `json:"pods"`
	// Route is where these nodes look for the image now, in order; none if it is not known,
	// for which RouteUnknown says why.
	Route        []string `json:"route,omitempty"`
	RouteUnknown string   `json:"routeUnknown,omitempty"`
}
