// Package attack attacks the guard from inside the cluster: as a pod that can reach its port, as
// somebody who may write its Lease, as a tenant, as one who takes away its rights or its
// registration. Two guards run as processes with the rights of the manifests, behind the webhooks
// of the manifests on a real API server.
//
// Ordinary tests make each attack a few times; `make campaign` makes them often, and prints what came
// of them. With ATTACK=PROGRAM another guard is attacked, such as one before a defence: not with what
// would take the memory of the machine.
package attack
