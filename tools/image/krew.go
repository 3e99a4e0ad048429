package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// pages is where releases are downloaded from.
const pages = "https://github.com/mirrorset-guard/mirrorset-guard"

// krewHead and krewPlatform are a plugin manifest as krew reads it
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
const (
	krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: mirrorset
spec:
  version: %[1]q
  homepage: %[2]s
  shortDescription: Check changes of OpenShift mirror sets
  description: |
    Knows every image an OpenShift cluster may have to pull, computes with the
    nodes' own code where each would be pulled from under a changed mirror
    configuration, asks the registries whether they hold it, and follows the
    rollout that the change starts.
  caveats: |
    For completion, once, in a folder of the PATH:
      ln -s "$(command -v kubectl-mirrorset)" kubectl_complete-mirrorset
    As "oc mirrorset" the plugin works the same.
  platforms:
`
	krewPlatform = `  - selector: {matchLabels: {os: %[1]s, arch: %[2]s}}
    uri: %[3]s
    sha256: %[4]x
    bin: %[5]s
`
)

// writeKrew writes the manifest by which krew installs the archives in dir as a plugin of kubectl.
func (j *job) writeKrew(dir string) error {
	var b strings.Builder
	fmt.Fprintf(&b, krewHead, j.version, pages)
	for _, platform := range downloads {
		name, binary := j.archive(platform)
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		uri := fmt.Sprintf("%s/releases/download/%s/%s", pages, j.version, name)
		fmt.Fprintf(&b, krewPlatform, platform.OS, platform.Architecture, uri, sha256.Sum256(content), binary)
	}
	return publish(filepath.Join(dir, "krew.yaml"), []byte(b.String()))
}

// archive returns the names of the archive for a platform, and of the program in it.
func (j *job) archive(platform v1.Platform) (name, binary string) {
	name, binary = j.fileName(platform.OS+"_"+platform.Architecture), program
	if platform.OS == "windows" {
		return name + ".zip", binary + ".exe"
	}
	return name + ".tar.gz", binary
}
