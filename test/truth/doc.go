// Package truth compares the guard with real runtimes. Its test generates scenarios (a
// mirror configuration, registries on loopback that hold an image or misbehave, and
// a reference), writes the registries.conf and the policy.json that nodes would
// get, and lets skopeo and containers/image itself pull. The guard must say "can be
// pulled" if and only if they pull, and name the place they pull from.
//
// docs/truth.md lists the compared answers, which differences remain and why.
package truth
