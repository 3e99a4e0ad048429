// Package inventory has no code of its own. The packages below it hold what mirrorset-guard
// knows of a cluster and of registries:
//
//   - images: which images objects name, and what depends on them
//   - objects: nodes, pools, the cluster's configuration, files in MachineConfigs
//   - cluster: all of that from a running cluster; snapshot: from a dump
//   - trust: the CAs and proxies of the nodes
//   - registry: whether registries have an image
package inventory
