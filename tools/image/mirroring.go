package main

import (
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// The files of a release by which the image gets to the mirror of a cluster that reaches nothing else.
const (
	imageSetFile = "imageset-config.yaml"
	ocFile       = "mirror-with-oc.sh"
	skopeoFile   = "mirror-with-skopeo.sh"
)

// imageSet is for oc-mirror v2, which copies signatures from 4.21 on.
const imageSet = `# The guard's own image, for oc-mirror v2. It can also be added to an image set that there is:
#   oc mirror --v2 -c %[1]s --workspace file://work docker://MIRROR
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
mirror:
  additionalImages:
  - name: %[2]s
`

// script begins one that copies to the repository that it is given.
const script = `#!/bin/sh
# Copies the guard's own image, all its platforms%[2]s, to the mirror:
#   sh %[1]s MIRROR/NAME
set -eu
to=${1:?"which repository to copy to, such as mirror.example.com/mirrorset-guard?"}
`

// writeMirroring writes what copies the image, and its signatures if it is signed.
func (j *job) writeMirroring(work, dir string) error {
	digest, parts, err := builtDigests(filepath.Join(work, "image"))
	if err != nil {
		return err
	}
	from, with := j.image.Name(), ""
	if j.key != nil {
		with = ", and the signatures of each"
	}
	oc, skopeo := fmt.Sprintf(script, ocFile, with), fmt.Sprintf(script, skopeoFile, with)
	oc += fmt.Sprintf("oc image mirror --keep-manifest-list=true --filter-by-os='.*' %s@%s=\"$to:%s\"\n", from, digest, j.version)
	skopeo += fmt.Sprintf("skopeo copy --all --preserve-digests docker://%s@%s \"docker://$to:%s\"\n", from, digest, j.version)
	if j.key != nil {
		for _, signed := range append([]v1.Hash{digest}, parts...) {
			tag := signatureTag(signed)
			oc += fmt.Sprintf("oc image mirror %s:%s=\"$to:%[2]s\"\n", from, tag)
			skopeo += fmt.Sprintf("skopeo copy --preserve-digests docker://%s:%s \"docker://$to:%[2]s\"\n", from, tag)
		}
	}
	use := fmt.Sprintf("echo \"use it as $to@%s\"\n", digest)
	for name, content := range map[string]string{
		imageSetFile: fmt.Sprintf(imageSet, imageSetFile, from+"@"+digest.String()), ocFile: oc + use, skopeoFile: skopeo + use,
	} {
		if err := publish(filepath.Join(dir, name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// builtDigests returns the digests of the image in a layout, and of its platforms.
func builtDigests(dir string) (digest v1.Hash, parts []v1.Hash, err error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return digest, nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return digest, nil, err
	}
	digest = manifest.Manifests[0].Digest // writeLayout puts it before attached ones
	index, err := top.ImageIndex(digest)
	if err != nil {
		return digest, nil, err
	}
	if manifest, err = index.IndexManifest(); err != nil {
		return digest, nil, err
	}
	for _, part := range manifest.Manifests {
		parts = append(parts, part.Digest)
	}
	return digest, parts, nil
}
