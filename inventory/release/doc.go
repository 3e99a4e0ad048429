// Package release reads which images a release of OpenShift consists of, from its release image.
//
//	payload, err := release.Read(ctx, image, "quay.io/openshift-release-dev/ocp-release@sha256:...")
//	for _, img := range payload.Images { ... } // in the order in which an update needs them
//
// A release image holds /release-manifests in one of its layers, the last as a rule: image-references, an
// ImageStream that names the images by digest, release-metadata, and the manifests that the Cluster
// Version Operator (CVO) applies, whose file names begin with their run level (0000_30_...). Layers are read
// from the last to the first, all of them: one below may have an image policy that CVO applies as well.
//
// The image was made by somebody else. Read holds no more than a few files in memory, and refuses what no
// release has: see the limits in read.go. The digest of a layer is compared before anything in it counts.
package release
