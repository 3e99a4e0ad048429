// Package cluster is the inventory of a running cluster, read from its API server.
//
//	inventory, err := cluster.New(config, cluster.Options{})
//	go inventory.Run(ctx)
//	err = inventory.WaitReady(ctx)
//	images, err := inventory.Images(ctx)
//
// Most of it is followed: sources.go lists the resources and where each is entered, Gaps and Notes
// (stale.go) name the outdated parts. Mirror objects and what MCO applied last are read again with
// every call (mirrors.go, applied.go), so that two changes in a row see each other. Kinds without rules
// of their own are searched periodically (survey.go). Rules returns the rights that all this takes.
package cluster
