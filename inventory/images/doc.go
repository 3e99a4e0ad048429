// Package images finds the images that the objects of a cluster name, and what depends on
// them. It is the same for a running cluster and for a dump, contacts nothing and reads no
// files.
//
// Kind.Extract, Decode and Guess take the References out of one object. An Index holds the
// References of many objects in little memory, and makes of them the images and their
// consumers (policy.Image), which is what a review goes through. Where a field of an object
// is read:
//
//   - extract.go: built-in workloads and their pods; settings.go: images in the environment
//     and the arguments of all with a pod spec; configmaps.go: ConfigMaps of the release
//   - openshift.go: kinds of OpenShift and its add-ons, a table of field paths;
//     dockerfile.go: the Dockerfiles in builds
//   - guess.go: kinds that nothing here knows; kinds.go: which of them are looked through
//   - streams.go, tags.go and accounts.go: what depends on ImageStreams and service accounts
//
// The package reports references and judges nothing. A reference that no node could parse is passed on
// as written, because callers will want to report it. Of each object, only references, names and a few
// facts are kept, and no credentials at all.
package images
