package policy

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// minFree is what MCO's daemon keeps free on a node beside the images of a set (MinFreeStorageAfterPrefetch in
// pkg/daemon/constants/constants.go:138 of machine-config-operator at ab14c8e2843b).
const minFree = 16 << 30

// imageSize returns how much of an image a node fetches, compressed; 0 if that is not known. Counted is what MCO's
// daemon counts: of an index it reads no layers (getImageSize in pkg/daemon/pinned_image_set.go:1132).
func (p *Plan) imageSize(ref string, facts Facts) (size, counted int64) {
	for i := range p.Reroutes {
		if r := &p.Reroutes[i]; r.Image.Ref == ref {
			for _, l := range r.After.Open() {
				if f := facts.At(l); f.Presence == Present && f.Size > 0 {
					if len(f.Children) > 0 {
						return f.Size, 0
					}
					return f.Size, f.Size
				}
			}
		}
	}
	return 0, 0
}

// tooLargeToPin objects to a set that the daemon of a node refuses for its size: where twice the missing images take as
// much as its allocatable ephemeral storage less minFree (checkNodeAllocatableStorage and checkImagePayloadStorage,
// pinned_image_set.go:437). It counts a layer that images share once, so that only the largest image proves that, on a
// node that certainly lacks it; all that a node does not list warn. Unknown nodes or sizes prove nothing.
func (p *ChangePlan) tooLargeToPin(set, was *mcfgv1.PinnedImageSet, nodes []*corev1.Node, facts Facts) []Finding {
	var least *corev1.Node
	var worst struct{ room, largest, all int64 }
	proved := false
	for _, node := range nodes {
		storage, known := node.Status.Allocatable[corev1.ResourceEphemeralStorage]
		if !known {
			continue
		}
		var largest, all int64
		for _, image := range set.Spec.PinnedImages {
			_, size := p.imageSize(string(image.Name), facts)
			if listsImage(node, string(image.Name)) {
				continue
			}
			if all += size; size > storage.Value() || p.lacks(node, string(image.Name)) {
				largest = max(largest, size)
			}
		}
		room := storage.Value() - minFree
		if fails := room < 0 || 2*largest >= room; 2*all >= room && (least == nil || fails && !proved || fails == proved && room < worst.room) {
			least, proved, worst = node, fails, struct{ room, largest, all int64 }{room, largest, all}
		}
	}
	if least == nil {
		return nil
	}
	severity := denyIf(proved && (was == nil || slices.ContainsFunc(set.Spec.PinnedImages, func(i mcfgv1.PinnedImageRef) bool { return !slices.Contains(was.Spec.PinnedImages, i) })))
	pulls, how := worst.largest, "MCO refuses the set there, and pins nothing of it (PinnedImageSetsDegraded)"
	if !proved {
		pulls, how = worst.all, "unless the node has some of its images already, or they share layers, MCO refuses the set there (PinnedImageSetsDegraded)"
	}
	return []Finding{pinFinding(severity, set, fmt.Sprintf("it does not fit on node %s: %s", least.Name, how),
		[]string{
			fmt.Sprintf("node %s, the smallest, has %s of allocatable ephemeral storage", least.Name, text.Size(worst.room+minFree)),
			fmt.Sprintf("MCO wants twice what it has to pull, %s, and %s beside that", text.Size(2*pulls), text.Size(minFree)),
		}, "pin fewer or smaller images, or label the set for a pool whose nodes have the room")}
}

// listsImage reports whether the kubelet of a node says that it holds an image.
func listsImage(node *corev1.Node, ref string) bool {
	_, digest, _ := strings.Cut(ref, "@")
	return slices.ContainsFunc(node.Status.Images, func(image corev1.ContainerImage) bool {
		return slices.ContainsFunc(image.Names, func(name string) bool { return strings.HasSuffix(name, "@"+digest) })
	})
}

// lacks reports whether a node certainly does not hold an image that it does not list: it lists all that it has, or nothing but new pins
// needs the image.
func (p *ChangePlan) lacks(node *corev1.Node, ref string) bool {
	if n := len(node.Status.Images); n > 0 && n < maxListedImages {
		return true
	}
	pinned := slices.ContainsFunc(pinnedSetsOf(p.change.Before), func(s *mcfgv1.PinnedImageSet) bool {
		return slices.Contains(s.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(ref)})
	})
	return !pinned && !slices.ContainsFunc(p.known.Images.find(ref).Consumers, func(c Consumer) bool { return c.Kind != pinnedSetKind })
}

// maxListedImages is how many images a kubelet lists (nodeStatusMaxImages).
const maxListedImages = 50

// pinPulls says which nodes pull what for the PinnedImageSets of the change, "" for none.
func (p *ChangePlan) pinPulls(facts Facts) string {
	placed := newPinPlacements(p.known.Rollout)
	before := map[pin]bool{}
	for _, s := range pinnedSetsOf(p.change.Before) {
		for _, pool := range placed.pools(s) {
			for _, image := range s.Spec.PinnedImages {
				before[pin{string(image.Name), pool}] = true
			}
		}
	}
	var parts []string
	for _, pool := range placed.all {
		var size int64
		images, unknown := map[string]bool{}, 0
		for _, s := range pinnedSetsOf(p.change.After) {
			for _, image := range s.Spec.PinnedImages {
				ref := string(image.Name)
				if !rollout.TakesPinnedSet(pool, s) || before[pin{ref, pool.Name}] || images[ref] {
					continue
				}
				images[ref] = true
				of, _ := p.imageSize(ref, facts)
				if size += of; of == 0 {
					unknown++
				}
			}
		}
		if nodes := len(p.known.Rollout.PinNodes(pool)); len(images) > 0 && nodes > 0 {
			parts = append(parts, fmt.Sprintf("has %s of pool %s pull and hold %s (%s)", text.Count(nodes, "node"), pool.Name, text.Count(len(images), "image"), pulledSize(size, unknown)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ", without a drain"
}

func pulledSize(size int64, unknown int) string {
	switch {
	case unknown == 0:
		return text.Size(size) + " compressed"
	case size == 0:
		return "how much is not known"
	default:
		return fmt.Sprintf("%s compressed, and %s of unknown size", text.Size(size), text.Number(unknown))
	}
}
