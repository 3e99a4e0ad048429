// Package copying copies images to mirrors, as a policy.Copy says.
//
//	copier := copying.New(pull, push, copying.Options{})
//	jobs := copier.Copy(ctx, copies, planned)
//
// or, to learn only what each copy has to send, and how many bytes,
//
//	jobs := copier.Survey(ctx, copies)
//
// go-containerregistry speaks the protocol; requests go over package transfer, with the
// guard's credentials, trust and pace. This package decides what to copy, and in which order:
//
//   - An image is copied by the digest that it had when it was planned, byte for byte: an index with its
//     parts, layers, and the attachments of it and of its parts (tags .sig, .att and .sbom, and OCI referrers).
//   - A mirror that has an image without its signature is worse than one that has neither, as nodes stop
//     there. So blobs come first, then attachments, then the parts of an index, then the index, and a
//     tag last of all. A copy that ends in between leaves nothing that nodes would find.
//   - A blob that the registry has is not sent. One that another repository there has is mounted from it.
//     Blobs flow from one registry to the other, and are nowhere as a whole.
//   - A tag that names another image there is not moved, unless that is asked for.
package copying
