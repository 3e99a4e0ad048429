package objects

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/intern"
)

const (
	// maxImages is how many images a kubelet lists, the largest first, unless its
	// nodeStatusMaxImages says otherwise. On a node with more, those beyond count as not
	// there.
	maxImages = 50
	// maxImageNames is how many names a kubelet lists of an image
	// (MaxNamesPerImageInNodeStatus in its pkg/kubelet/nodestatus/setters.go).
	maxImageNames = 5
)

// imageNames are the names of one image on a node, the rest of them empty.
type imageNames [maxImageNames]string

// sharedNames holds the names of images once for all nodes: as strings of their own, the
// 250,000 images of 5,000 nodes would take 60 MB.
var sharedNames intern.Pool[imageNames, imageNames]

// trimImages keeps the names of images on a node.
func trimImages(images []corev1.ContainerImage) []corev1.ContainerImage {
	var trimmed []corev1.ContainerImage
	for _, image := range images[:min(len(images), maxImages)] {
		if len(image.Names) > 0 {
			trimmed = append(trimmed, corev1.ContainerImage{Names: shareNames(image.Names)})
		}
	}
	return trimmed
}

func shareNames(names []string) []string {
	var key imageNames
	n := copy(key[:], names)
	return sharedNames.Get(key, func() *imageNames { return &key })[:n:n]
}
