// Package status says how far a rollout of the Machine Config Operator (MCO) has come: which pool and which node waits
// for what.
//
//	s := status.Of(status.Input{Cluster: cluster, Rendered: configs, Now: now})
//
// It says how far nodes are (overview, text, notes), and does not judge it: package causes says why they do not move, and
// package verify whether they have what mirror objects ask for. Both rest on Of, and on Lookup, which finds objects and the
// routes of images by the rendered config of a node. This package rests on package rollout, and on none beside it.
//
// It is the same for a running cluster and for a dump. It names the objects that could not be read,
// and never takes them to be well. The package is pure: it has no client and no clock.
package status
