// Package objects reads the objects of a cluster other than those that name images: nodes and
// their pools, disruption budgets, the cluster's configuration, and the files in
// MachineConfigs. It is the same for a running cluster and for a dump.
//
// What begins with Trim returns what is kept of an object: what mirrorset-guard decides by
// and no more, and no credentials. DecodeApplied and DecodeFiles read what MachineConfigs
// put on nodes; EncodeApplied and EncodeFiles write it to a dump.
package objects
