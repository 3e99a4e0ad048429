// Package progress tells the story of rollouts: what has happened between two views of a
// cluster, and whether a rollout has stalled.
//
//	tracker := progress.NewTracker(0)
//	events := tracker.Observe(progress.Sight{Input: in, Mirrors: &set, Time: now})
//	if tracker.WantsDiagnosis(now) { // which takes the pods of the cluster
//		events = tracker.Diagnosed(causes.Diagnose(withPods, set), withPods.Cluster, now)
//	}
//
// A rollout of a pool has stalled when nothing of it has moved for a while and a cause is
// known that does not pass by itself, or without such a cause when nothing has moved for far
// longer. To move is to come further than before: a node that is taken, drained,
// rebooting or done for the first time with this config, a pod that has left a node whose drain
// found it there, another config for the pool. Going back and forth is not moving.
//
// All times are those of one clock, the observer's: those of the cluster are shown elsewhere
// and never compared with it. The package is pure: it has no client and no clock.
package progress
