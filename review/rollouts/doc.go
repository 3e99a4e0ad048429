// Package rollouts follows the rollouts of a running cluster.
//
// A Reader makes what policy/rollout/progress goes by from an inventory, and asks the API
// server for nothing twice. Command rollout watch and the Follower share it: the same engine,
// and the same words.
//
// A Follower is the part of the guard that follows what a mirror change has started, in the
// leader only: an Event on the mirror set when its rollout begins, stands still, moves again
// and ends, and metrics. It writes nothing else, and nothing to pools or nodes.
//
//	f, err := rollouts.NewFollower(rollouts.Options{Source: inventory, Outlet: outlet})
//	f.Run(leading)
package rollouts
