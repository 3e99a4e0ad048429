// Package readiness says whether nodes could pull a release of OpenShift that the cluster does not run yet: its
// release image, each image of its payload, and whether CVO would accept it.
//
//	choice, err := readiness.Find(version, "4.21.3")
//	r, err := readiness.Judge(ctx, readiness.World{...}, choice)
//	fmt.Print(r.Answer())
//
// Images are judged by the engine that reviews changes (policy.NewPulls), as if they ran already: by the
// configuration in force, and by that which the release brings, as it may require signatures that today's does
// not. An undetermined fact makes the verdict UNKNOWN, never READY.
package readiness
