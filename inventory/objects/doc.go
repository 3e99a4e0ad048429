// Package objects reads the objects of a cluster other than those that name images: nodes and
// their pools, disruption budgets, the cluster's configuration, and the files in
// MachineConfigs. It is the same for a running cluster and for a dump.
//
// Kinds lists the kinds that are kept, and a Store holds their objects. The Trim functions return only the parts of an object that
// mirrorset-guard bases decisions on, and no credentials. DecodeApplied and DecodeFiles read what MachineConfigs put on nodes;
// EncodeApplied and EncodeFiles write it to a dump.
package objects
