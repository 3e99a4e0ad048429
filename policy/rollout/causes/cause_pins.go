package causes

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// pinned is about PinnedImageSets that nodes of a pool could not pull or pin, in the words of their MachineConfigNodes
// (status.pinnedImageSets[].lastFailedGenerationError, which updateStatusError in MCO's pkg/daemon/pinned_image_set.go writes).
func (d *diagnosis) pinned(p *status.Pool) {
	for _, node := range d.Cluster.NodePins {
		for _, s := range node.Sets {
			if node.Pool == p.Name && !node.Works && s.LastFailedGenerationError != "" && s.LastFailedGeneration == s.DesiredGeneration {
				d.add(d.pinsNotHeld(node, s))
			}
		}
	}
}

func (d *diagnosis) pinsNotHeld(node rollout.NodePins, s mcfgv1.MachineConfigNodeStatusPinnedImageSet) HoldUp {
	h := HoldUp{
		Cause: PinsNotHeld, Pool: node.Pool, Node: node.Node, subject: s.Name,
		Chain: chain(fmt.Sprintf("node %s does not hold PinnedImageSet %s", node.Node, s.Name), "it could not pull or pin it: "+s.LastFailedGenerationError),
	}
	if strings.Contains(s.LastFailedGenerationError, "storage available is less") { // errInsufficientStorage
		h.because("MCO wants twice the size of what it has to pull, and 16 GiB beside that, of the node's allocatable ephemeral storage")
	}
	if image := d.imageIn(s.Name, s.LastFailedGenerationError); image != "" {
		h.because("one image that cannot be pulled fails the whole set: " + image)
		route, unknown := d.RouteBy(d.currentOf(node.Node), "", image)
		h.explain(d.pullOf(image, node.Node, route, unknown))
	}
	h.Remedies = append(h.Remedies,
		look(fmt.Sprintf("oc get machineconfignode %s -o yaml", text.Argument(node.Node)), "shows what the node says of each set (status.pinnedImageSets)"),
		act("oc edit pinnedimageset "+text.Argument(s.Name), "takes out of the set what nodes cannot hold, unless it can be copied to where they look for it; they then try again by themselves, without a drain"))
	return h
}

// currentOf returns the rendered config that a node has.
func (d *diagnosis) currentOf(node string) string {
	if n := d.NodeOf[node]; n != nil {
		return rollout.ReportOf(n).Current
	}
	return ""
}

// imageIn returns the image of a set that a message names, "" for none.
func (d *diagnosis) imageIn(set, message string) string {
	for _, s := range d.Cluster.PinnedSets {
		for _, image := range s.Spec.PinnedImages {
			if s.Name == set && strings.Contains(message, string(image.Name)) {
				return string(image.Name)
			}
		}
	}
	return ""
}
