package v1alpha1

import "time"

// A RolloutStatus is the progress of the rollouts of a cluster. Times in it are those of the
// cluster's clocks.
type RolloutStatus struct {
	// Operator is nil if ClusterOperator machine-config is not known.
	Operator *Operator `json:"operator,omitempty"`
	// Pools are master, arbiter and worker, and then the others by name.
	Pools []PoolStatus `json:"pools"`
	// Unmanaged are the nodes that no pool updates.
	Unmanaged []UnmanagedNode `json:"unmanaged,omitempty"`
	// Remaining is how long the pools take that are on their way, side by side.
	Remaining *Remaining `json:"remaining,omitempty"`
	// Notes list the unknowns, and how to learn them.
	Notes []string `json:"notes,omitempty"`
}

// An Operator is the status of MCO in its own words.
type Operator struct {
	Conditions []Condition `json:"conditions"`
}

// A Condition is a condition of an object.
type Condition struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// A PoolStatus is the progress of a MachineConfigPool.
type PoolStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Held is what keeps nodes from being taken, in a clause; "" if nothing does.
	Held string `json:"held,omitempty"`
	// The counts are those of the pool's status. Present is how many nodes there are.
	Machines    int `json:"machines"`
	Updated     int `json:"updated"`
	Ready       int `json:"ready"`
	Unavailable int `json:"unavailable"`
	Degraded    int `json:"degraded"`
	Present     int `json:"present"`
	// AtOnce is how many nodes are updated at once, as things are.
	AtOnce int `json:"atOnce"`
	// Paused is nil for a pool that is not paused.
	Paused *Paused `json:"paused,omitempty"`
	// Current is the rendered config that all nodes have had, Target the one that they are
	// to have.
	Current string `json:"current"`
	Target  string `json:"target"`
	// From is the config with which Changes compares Target: that of a node that does not
	// have Target yet. "" if all have.
	From string `json:"from,omitempty"`
	// Changes are what differs between the two, nil if there is nothing to compare or one
	// could not be read. Action says what they do to a node: "drains and reloads CRI-O".
	Changes *Changes `json:"changes,omitempty"`
	Action  string   `json:"action,omitempty"`
	Drains  bool     `json:"drains,omitempty"`
	// Conditions are those that are not as they should be.
	Conditions []Condition `json:"conditions,omitempty"`
	// Nodes are those that are not done, in the order in which MCO takes them.
	Nodes     []NodeStatus `json:"nodes"`
	Remaining *Remaining   `json:"remaining,omitempty"`
}

// Paused names since when and by whom a pool is paused, by managed fields.
type Paused struct {
	Since *time.Time `json:"since,omitempty"`
	By    string     `json:"by,omitempty"`
	// Lines say what follows from it.
	Lines []string `json:"lines"`
}

// A NodeStatus is the progress of a node that is not done.
type NodeStatus struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// State says what happens on the node, or what it waits for; Daemon is the state that its
	// daemon reports, and Reason the daemon's words.
	State   string `json:"state"`
	Daemon  string `json:"daemon,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Current string `json:"current"`
	Desired string `json:"desired"`
	// Unavailable is why MCO counts the node as unavailable, "" if it does not.
	Unavailable string `json:"unavailable,omitempty"`
	// Since is when the update of the node began, nil if it is not known.
	Since *time.Time `json:"since,omitempty"`
	// Drain is nil if the daemon never asked for one.
	Drain *Drain `json:"drain,omitempty"`
	// Cordoned is nil for a node that takes pods.
	Cordoned *Cordoned `json:"cordoned,omitempty"`
	// Conditions are those of the node that are not as they should be, and those of its
	// MachineConfigNode that say how far it is.
	Conditions []Condition `json:"conditions,omitempty"`
}

// A Drain is the order of a daemon to the drain controller, and its answer: "drain" or "uncordon",
// a hyphen, and a rendered config.
type Drain struct {
	Asked    string `json:"asked"`
	Done     string `json:"done,omitempty"`
	Finished bool   `json:"finished"`
}

// Cordoned names since when and by whom a node is cordoned, by managed fields.
type Cordoned struct {
	Since *time.Time `json:"since,omitempty"`
	By    string     `json:"by,omitempty"`
}

// A Remaining is the time that something still takes. Text is both in words.
type Remaining struct {
	MinSeconds int64  `json:"minSeconds"`
	MaxSeconds int64  `json:"maxSeconds"`
	Text       string `json:"text"`
}

// Changes are what differs between two rendered configs.
type Changes struct {
	// Registries are the entries of registries.conf that differ.
	Registries []RegistryChange `json:"registries,omitempty"`
	// Files are the paths of other files that differ, Units the systemd units, both sorted.
	Files []string `json:"files,omitempty"`
	Units []string `json:"units,omitempty"`
	// System says in words what else differs: the OS image, kernel arguments, and so on.
	System []string `json:"system,omitempty"`
}

// A RegistryChange is an entry of a file before and after, in words; "" if there is none.
type RegistryChange struct {
	// File is the path of the file, "" for registries.conf and its drop-ins.
	File   string `json:"file,omitempty"`
	Scope  string `json:"scope"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}
