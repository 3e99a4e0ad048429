// Package rollout forecasts what a change of the mirror configuration does to nodes: what
// the Machine Config Operator (MCO) does on each of them (reload CRI-O, drain, reboot), and
// in which order and how fast its pools go through theirs.
//
//	decision, err := rollout.Decide(before, after, conditions) // what happens on one node
//	forecast := rollout.NewForecast(cluster, decide)           // which nodes, in which order
//
// MCO keeps its rules private, so they are restated here, each with the function that it
// comes from. File names and line numbers are those of openshift/machine-config-operator
// at 7ff337a4 (August 2026). The checks of registries.conf, maxUnavailable, the order of nodes
// and what counts as unavailable are the same in OpenShift 4.14; 4.12 has other checks.
//
// The package is pure: nodes, pools and files come in as arguments. It has no opinion on
// whether a drain is acceptable, and covers clusters only whose nodes MCO's pools update:
// nodes of a hosted cluster are replaced or updated by their NodePool.
package rollout
