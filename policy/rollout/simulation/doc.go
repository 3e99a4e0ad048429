// Package simulation plays a rollout node by node before it is made: what the Machine Config
// Operator (MCO), the eviction API, the scheduler and the kubelet would do.
//
//	result := simulation.Run(simulation.Input{Cluster: cluster, Forecast: forecast, Pull: pull})
//	if !result.Finishes() { // some choice of the scheduler may lead to a stall
//		fmt.Println(result.Stalls)
//	}
//
// A drain waits for PodDisruptionBudgets, these wait for pods that are not ready, and those
// may wait for an image that nodes cannot pull by their new route, or for a node that has a
// place for them. Where the drain waits for ever, the rollout stalls.
//
// The course depends on which nodes the scheduler chooses. The result has a stall unless none is possible,
// whatever is chosen and in whatever order things happen. Its steps are played with choices that do harm, and may
// come further than another course. A stall that they do not come to, but that cannot be excluded, is marked
// (Stall.Possible). The result may be darker than the worst that can happen.
//
// # What is simulated
//
// MCO: the order of nodes, how many at once, pools side by side, arbiters after masters; a node
// is cordoned, drained, updated and uncordoned. A drain leaves pods of DaemonSets and static
// ones alone, and forces all others, so that pods without a controller are gone. It does not wait for
// pods that come to a node while it is drained, as they tolerate the cordon.
//
// The eviction API and the disruption controller: see rollout.Budget. The scheduler: everything that
// keeps a pod from a node, but for limits on volumes and devices (resourceClaims). Where several pods share a volume that one node
// at a time can have, each may fail to start elsewhere. Pods push out others of lower priority where
// drains go; the proof assumes it nowhere else. The taint UpdateInProgress:PreferNoSchedule
// of nodes still to be updated is a preference, which the played steps follow. The kubelet: whether
// images are there or can be pulled.
//
// # What is taken for granted
//
// Neither people, nor autoscalers, nor a descheduler intervene. Pods end when they are evicted unless
// they have finalizers, and start where their images are there. Those that are being deleted and have
// finalizers or are past their time, or whose time is not known, do not end. A StatefulSet replaces an evicted
// pod when all pods of lower ordinals are ready, unless it is known to make them in parallel. So do operators that
// have pods of their own, if these are to run for ever (rollout.Pod.IsMadeAgain). A pod that is
// not ready, or that the scheduler cannot place, for reasons that are not known, is not ready later on either. Nodes stay as they are, but for
// what MCO does; images stay on them.
//
// # What is where
//
//   - The state: package scheduling. It does not change while a rollout is played.
//   - The course: drain plays the steps, search and preempt choose nodes for pods, worst collects the stalls.
//   - The proof that no other course stalls: package proof.
//   - What else is told of it: obstacles, moved, needed, text.
//
// The package is pure: everything comes in through Input.
package simulation
