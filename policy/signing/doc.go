// Package signing says whether nodes accept an image by the signatures attached to it.
//
// It restates what package signature of containers/image (v5.36.2) does with the requirements
// of policy.json. Calling that package itself would need a build tag for every build without
// cgo, ten more modules, and a registry or a folder to read each signature from, as its
// exported functions take sigstore's signatures in no other way; docs/dependencies.md has the
// figures. The truth test holds this package to the original.
//
//	requirement, err := signing.FromSpec(clusterImagePolicy.Spec.Policy) // as MCO writes it
//	judgement := signatures.Judge([]signing.Requirement{requirement}, signing.Image{...})
//
// What it cannot verify it calls Undecided, never Accepted: keys that are files on the nodes,
// and signatures by GPG. It reads no clock: certificates of a PKI are verified for the time
// at which the signatures were read.
package signing
