package simulation

import "github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"

// Input is the change and the cluster that a simulation is of.
type Input = scheduling.Input

// Result says whether a rollout may stall, and how.
type Result struct {
	// Steps are the nodes that MCO takes, in the order in which it takes them, where the scheduler's choices do
	// most harm.
	Steps []Step
	// Stalls are where the rollout may go no further, those that Steps come to first. If there are none, no
	// choice of the scheduler leads to one.
	Stalls []Stall
	// Waiting are the nodes that MCO does not take until somebody has seen to them, or why it takes none
	// of a pool, as clauses ("node worker-2 is not ready"). They are in no step, and the rollout does not finish. Those
	// that failed before are in one, and may fail again.
	Waiting []string
	// Obstacles are what the drains of this change meet, and those of any other of the same
	// nodes; those of routers first. There are none where no node is drained.
	Obstacles []Obstacle
	// Moved are the images that pods which drains evict may have to pull again, whether they can
	// or not; each once for each namespace and pool.
	Moved []Moved
	// Partial is set where Stop ended the simulation. That there are no stalls means nothing then; Moved has all there are.
	Partial bool
}

// Finishes reports whether the rollout comes to its end, if all of the cluster was read that it may depend on.
func (r Result) Finishes() bool {
	return !r.Partial && len(r.Stalls)+len(r.Waiting) == 0
}

// Run simulates a rollout.
func Run(in Input) Result {
	w := scheduling.NewCluster(in)
	result := Result{Moved: moved(w), Waiting: w.Waiting}
	if !w.Stopped {
		result.Steps, result.Stalls = worst(w)
	}
	if !w.Stopped {
		result.Obstacles = obstacles(w, &in.Cluster)
	}
	result.Partial = w.Stopped
	return result
}
