// Package causes says why the nodes and pools of a cluster do not move, and how to get out of it.
//
//	d := causes.Diagnose(in, set)
//
// Diagnose goes through the cluster, its pools and their nodes, and each cause_*.go finds causes of one kind; what only an
// answer tells, it asks for (ask). It rests on packages status, for how far nodes are, and verify, for what pools are to
// have, and neither knows of it. It is pure: others ask, and give it the answers.
package causes
