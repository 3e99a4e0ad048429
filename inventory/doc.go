// Package inventory has no code of its own. The packages below it hold what mirrorset-guard
// knows of a cluster and of registries:
//
//   - images: which images objects name, and what depends on them
//   - objects: nodes, pools, the cluster's configuration, files in MachineConfigs
//   - workloads: the pods of a cluster, and what else a forecast of a rollout goes by
//   - cluster: all of that from a running cluster; snapshot: from a dump
//   - follow: how objects of an API server are followed, for cluster and trust
//   - trust: the CAs and proxies of the nodes
//   - registry: the client of one registry; presence: the facts about registries, and how long they
//     hold
package inventory
