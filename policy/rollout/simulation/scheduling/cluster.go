package scheduling

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Cluster is an Input with indexes. It does not change while courses are run.
type Cluster struct {
	in        Input
	Nodes     []Node
	byName    map[string]int32
	Pools     []Pool
	Pods      []Pod
	Classes   []*PodClass
	Budgets   []*Budget
	counters  []*Counter
	Resources map[corev1.ResourceName]int
	Images    *Images
	Waiting   []string // simulation.Result.Waiting
	keys      *topology
	ending    []ending

	// Lowest is the lowest priority of a pod.
	Lowest int32

	candidates *eligibility
	sinceAsked int
	// Stopped is set once Input.Stop asked for that.
	Stopped bool
}

// Pool is a pool of the forecast.
type Pool struct {
	*rollout.Pool
	// Order are the nodes that are updated, in the order in which MCO takes them; Capacity is
	// how many at once.
	Order    []int32
	Capacity int
	Drains   bool
	Follows  int // the pool that comes first, by index, -1 for none
}

// Node is a node of the cluster.
type Node struct {
	*corev1.Node
	// Pool is that of the forecast, -1 for none; Taken says that the rollout updates the
	// node, Drained that it drains it before.
	Pool           int
	Taken, Drained bool
	// rank is its place in the order of its pool's nodes.
	rank int
	// alive says that pods can start there: the kubelet is not known to be silent.
	alive bool
	// cordoned is set if it is cordoned, and the rollout does not change that.
	cordoned bool
	// Alloc is what it has for pods, by the index of the resource; nil if that is unknown.
	Alloc []int64
	// Pods are those that are there before the rollout; Leaving are those of them that are
	// being deleted and may not end.
	Pods    []int32
	Leaving []Leaving
}

// Pod is a pod of the cluster or, once that was evicted, its replacement, which keeps its number.
type Pod struct {
	*rollout.Pod
	PodClass *PodClass
	// At is its node before the rollout, by index, or NoNode or LostNode.
	At    int32
	State PodState
	// Stays says that no drain evicts it: it runs on no node that is drained, or from a file,
	// or for a DaemonSet.
	Stays bool
	// Guard says that an operator puts it back on its node (isGuard).
	Guard bool
	// before is the one of its name that has to end before it is made, nil if that is not so.
	before *Leaving
	// Set are the pods of its StatefulSet, which makes them one after the other; nil for none.
	Set *PodSet
	// Unplaceable is why it may stay without a node, or not start on another one; "" if nothing suggests so.
	Unplaceable string
	// forbidden is why the API server may refuse its replacement, or that may be another pod; "" if nothing suggests so.
	forbidden string
}

// ownerKey identifies a controller of pods.
type ownerKey struct {
	namespace string
	rollout.Owner
}

// PodState is the health of a pod.
type PodState uint8

// The states.
const (
	Healthy     PodState = iota // it is ready
	Unready                     // it runs and is not ready, for reasons unknown
	Failing                     // it is on a node and has not started
	Unscheduled                 // it has no node
	Gone                        // nothing replaces it
)

// NoNode is the node of a pod that has none, LostNode that of a pod whose node is not there.
const (
	NoNode   int32 = -1
	LostNode int32 = -2
)

// ending is a pod that is being deleted, and ran on a node.
type ending struct {
	podClass *PodClass
	node     int32
}

// often is how much work goes by between two questions, well below a millisecond on any processor.
const often = 2000

// Ask reports whether to give up. Work is about how many thousand instructions have passed
// since it was called last.
func (w *Cluster) Ask(work int) bool {
	if w.sinceAsked += work; w.sinceAsked < often || w.Stopped {
		return w.Stopped
	}
	w.sinceAsked = 0
	w.Stopped = w.in.Stop != nil && w.in.Stop()
	return w.Stopped
}

// IsNeverReplaced reports whether no controller or operator makes another pod instead.
func (p *Pod) IsNeverReplaced() bool { return p.IsBare() && !p.Guard }

// Settled reports whether it is where it stays; one of a DaemonSet may still wait for its node.
func (p *Pod) Settled() bool { return p.Stays && p.At != NoNode }

// GoesTo returns the nodes that the pod that replaces it may go to.
func (p *Pod) GoesTo() []int32 {
	if p.Guard {
		return []int32{p.At}
	}
	return p.PodClass.Eligible.List
}

// PodClass is all pods of one spec in one namespace, with their common properties.
type PodClass struct {
	ID        int
	namespace string
	Spec      *rollout.PodSpec
	// Mobile is how many pods of it a drain evicts, or the scheduler has still to place and can.
	Mobile int
	// Keeps is how many of these have finalizers, and may stay behind where they are evicted.
	Keeps int
	// Pods is how many there are of it, and fixed where those are that stay. Leaving is where
	// some are that are being deleted and take room.
	Pods    int
	fixed   []int32
	leaving []int32
	// Requests is by the index of the resource.
	Requests []int64
	// Pulls are the images of its pods, Made those that may be needed by the pods that are made instead: also the images of the template of
	// their controller, where that may be another (rollout.Controller.Template).
	Pulls, Made []ImagePull
	// Eligible are the nodes that the scheduler may choose, by conditions that do not change;
	// ToleratesCordon says that a cordon does not keep the pod away.
	Eligible *NodeSet
	// Reach are those and the ones where its pods are that move.
	Reach           *NodeSet
	ToleratesCordon bool
	// counted are the counters that count its pods. On a node where one of NoneOf counts a
	// pod it cannot run; SomeOf and Spreads are the other constraints that depend on pods.
	counted []*Counter
	NoneOf  []*Counter
	SomeOf  []Affinity
	Spreads []Spread
	Budgets []*Budget
}

// Waits reports whether another scheduler or a scheduling gate decides where or when the pod starts.
func (s *PodClass) Waits() bool {
	return s.Spec.Gated || s.Spec.Scheduler != "" && s.Spec.Scheduler != "default-scheduler"
}

// Plain says that a node where the pod could not go has to become free first: nothing else
// makes it possible.
func (s *PodClass) Plain() bool {
	return !s.ToleratesCordon && len(s.SomeOf) == 0 && len(s.Spreads) == 0 && !slices.ContainsFunc(s.NoneOf, func(c *Counter) bool {
		return c.Domains.N < len(c.Domains.Of)
	})
}

// Packed returns amounts as the key of a map.
func Packed(amounts []int64) string {
	b := make([]byte, 0, 8*len(amounts))
	for _, amount := range amounts {
		b = binary.AppendVarint(b, amount)
	}
	return string(b)
}
