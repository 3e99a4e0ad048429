package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Puller says who pulls an image for c. A build pulls what its strategy, its sources and its Dockerfile name
// by itself; its pod, which nodes pull for, names only the builder. But that of a custom build is the image of
// its pod (openshift-controller-manager, pkg/build/controller/strategy/custom.go). An ImageStream's tag is imported, and
// what it stands for may be pulled through by the integrated registry: where that is so, the consumer is
// no history.
func (c Consumer) Puller() mirrors.Puller {
	switch {
	case c.Container == customBuild:
		return mirrors.Nodes
	case c.Kind == "BuildConfig", c.Kind == "Build" && c.Use != History:
		return mirrors.Builds
	case c.Kind != "ImageStream":
		return mirrors.Nodes
	case c.isTag():
		return mirrors.Imports
	case c.Use != History:
		return mirrors.PullThrough
	default:
		return mirrors.Nodes // nothing pulls it
	}
}

// customBuild is the field in which a BuildConfig or Build names the image of the build's own pod.
const customBuild = "spec.strategy.customStrategy.from"

// isTag reports whether an ImageStream names the image as what a tag is imported from.
func (c Consumer) isTag() bool { return strings.HasPrefix(c.Container, "spec.tags[") }

// hasOtherPullers reports whether nodes are not all that pull img.
func hasOtherPullers(img Image) bool {
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool { return c.Puller() != mirrors.Nodes })
}

// pulledBy returns img with the consumers for which p pulls it, and whether there are any; an image
// without consumers is one that nodes pull.
func pulledBy(p mirrors.Puller, img Image) (Image, bool) {
	if !hasOtherPullers(img) {
		return img, p == mirrors.Nodes
	}
	img.Consumers = slices.DeleteFunc(slices.Clone(img.Consumers), func(c Consumer) bool { return c.Puller() != p })
	return img, len(img.Consumers) > 0
}
