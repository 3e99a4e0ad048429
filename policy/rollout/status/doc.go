// Package status says how far a rollout of the Machine Config Operator (MCO) has come: which
// pool and which node waits for what, what holds them up and how to get out of it, and whether
// nodes have the registries.conf and policy.json that the mirror objects ask for.
//
//	s := status.Of(status.Input{Cluster: cluster, Rendered: configs, Now: now})
//	d := status.Diagnose(in, set)
//	v := status.Verify(status.VerifyInput{Input: in, Mirrors: set})
//
// Of decides nothing but says how far nodes are (overview, text, notes). Diagnose decides why they do not
// move: diagnose goes through the cluster, its pools and their nodes, and each cause_*.go finds causes of one
// kind. Verify and ReachOf compare what nodes have with what objects ask for (verify, reach, pins,
// targetdifference); Diagnose asks for that comparison of what pools are to have. All of them rest on Of, and on
// lookup, which finds objects and the routes of images by the rendered config of a node.
//
// It is the same for a running cluster and for a dump. It names the objects that could not be read,
// and never takes them to be well. The package is pure: it has no client and no clock.
package status
