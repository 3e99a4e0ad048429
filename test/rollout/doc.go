// Package rollout holds what the guard says of a rollout to the Machine Config Operator's
// own code and to its controllers: those that make files of mirror objects, take one node
// after the other and drain it, together with Kubernetes' own, on a real API server. Only the daemon and the kubelet of a node are played, as they need a node.
//
// It is a module of its own, so that `go test ./...` at the top neither builds nor misses
// the programs that assets puts in place. MCO's code is in another one, mco: it needs
// other versions of the libraries that the guard is built with, and runs as a process
// (package oracle).
package rollout
