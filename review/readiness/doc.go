// Package readiness is the answer to the question whether nodes could pull a release of OpenShift that the cluster does not
// run yet: its release image, each image of its payload, and whether CVO would accept it.
//
//	wanted, err := target.Find(version, "4.21.3")
//	r, err := judge.Release(ctx, judge.World{...}, wanted)
//	fmt.Print(r.Answer())
//
// It asks nothing: package judge below it fills it in, and rests on it; package target says which release is meant, and both
// rest on that. An undetermined fact makes the verdict UNKNOWN, never READY.
package readiness
