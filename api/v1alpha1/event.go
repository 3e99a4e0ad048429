package v1alpha1

import "time"

// A RolloutEvent is something that has happened in a rollout (kind RolloutEvent). A type may be added.
type RolloutEvent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when it was seen, by the observer's clock.
	Time time.Time `json:"time"`
	// Type is one of those of package progress, or of package watch for the watch itself.
	Type string `json:"type"`
	// Pool is "" for what concerns all, Node is "" for what concerns the pool.
	Pool string `json:"pool,omitempty"`
	Node string `json:"node,omitempty"`
	// Message says it in a clause about the node or, without one, about the pool: "is being
	// drained". Without a pool it is a sentence.
	Message string `json:"message"`
	// Config is the rendered config that it is about.
	Config string `json:"config,omitempty"`
	// Objects are the mirror objects that a rollout comes from: "ImageTagMirrorSet shop".
	Objects []string `json:"objects,omitempty"`
	// Nodes are how many nodes of the pool are waiting, updating, draining, drained, rebooting, done,
	// degraded and unknown; those that are zero are left out.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Seconds is for how long nothing had moved, for PoolStalled and PoolMoving.
	Seconds int64 `json:"seconds,omitempty"`
	// Causes lead from each symptom to its cause, for PoolStalled. None means that no cause is
	// known.
	Causes [][]string `json:"causes,omitempty"`
}
