package simulation

import (
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Input is a change and the cluster that it is made in. It is only read.
type Input struct {
	Cluster rollout.Cluster
	// Forecast is that of the change for Cluster (rollout.NewForecast).
	Forecast rollout.Forecast
	// Pull says whether nodes of a pool can pull an image for a pod of a namespace, by the route
	// that they have before the change, or after it if updated is set. Pool is "" for nodes of
	// no pool. It is asked once for each combination that matters; nil knows nothing.
	// PullUnknown counts as a pull that fails in the worst course and as one that works in the best.
	Pull func(image, namespace, pool string, updated bool) rollout.Pull
	// OwnPolicies are the namespaces whose pods are held to a signature policy of their own.
	OwnPolicies []string
	// Now is when the cluster was read, by which a pod that is being deleted is past its time to
	// end; the zero Time if that is not known.
	Now time.Time
	// Stop is asked every few milliseconds whether to give up; nil never gives up.
	Stop func() bool
}

// Result is the range of courses that a rollout can take.
type Result struct {
	// Best and Worst are the ends of what the scheduler's choices can make of the rollout. If
	// Worst has no stall, then none of them leads to one; if Best has a stall, all of them do.
	Best  Course
	Worst Course
	// Obstacles are what the drains of this change meet, and those of any other of the same
	// nodes; those of routers first. There are none where no node is drained.
	Obstacles []Obstacle
	// Moved are the images that pods which drains evict may have to pull again, whether they can
	// or not; each once for each namespace and pool.
	Moved []Moved
	// AllPinned is set if nodes are drained, and every image of the pods that drains evict is held by
	// PinnedImageSets wherever its pods may go, so that none of them has to be pulled. Images that nodes
	// merely have at the moment do not count: kubelets remove those when the disk is full.
	AllPinned bool
	// Partial is set where Stop ended the simulation. Neither course is complete then, and
	// their missing stalls mean nothing.
	Partial bool
	// Unknown is what could not be read of the cluster (rollout.Cluster.Unknown), of what a
	// simulation rests on: "pods". Stalls may then be missing.
	Unknown []string
}

// Certain reports whether the courses rest on everything that they should: nothing was cut
// short, and all of the cluster was read.
func (r Result) Certain() bool { return !r.Partial && len(r.Unknown) == 0 }

// Finishes reports whether the rollout is certain to come to its end.
func (r Result) Finishes() bool {
	return r.Certain() && len(r.Worst.Stalls)+len(r.Worst.Waiting) == 0
}

// restsOn are the resources that a simulation rests on. Without the others the forecast of
// what happens on each node may be wrong, which comes before.
var restsOn = []string{"pods", "nodes", "machineconfigpools", "poddisruptionbudgets", "namespaces", "persistentvolumes", "resourcequotas"}

// Run simulates a rollout.
func Run(in Input) Result {
	w := newCluster(in)
	result := Result{Unknown: slices.DeleteFunc(slices.Clone(in.Cluster.Unknown), func(r string) bool { return !slices.Contains(restsOn, r) })}
	if !w.stopped {
		result.Worst = w.worst()
	}
	if !w.stopped {
		result.Best = w.best()
	}
	result.Best.Waiting, result.Worst.Waiting = w.waiting, w.waiting
	if !w.stopped {
		result.Obstacles = w.obstacles()
	}
	if !w.stopped {
		result.Moved = w.moved()
	}
	if !w.stopped && len(result.Unknown) == 0 {
		result.AllPinned = len(result.Moved) == 0 && w.allPinned()
	}
	result.Partial = w.stopped
	result.AllPinned = result.AllPinned && !result.Partial
	if !result.Certain() {
		result.Worst.Assured = nil
	}
	return result
}
