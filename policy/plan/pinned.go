package plan

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// PinnedSetKind is the Kind of consumers that are PinnedImageSets.
const PinnedSetKind = "PinnedImageSet"

// A Pin is an image that nodes of a pool are to hold; the pool is "" where pools are not known.
type Pin struct{ Ref, Pool string }

// withPins returns c as PinnedImageSets are after change: as consumers that run on the nodes of the pools
// that take them. The change brings the images that a set newly names, or newly has for a pool.
func (c Cluster) withPins(change policy.Change) Cluster {
	before, after := PinnedSetsOf(change.Before), PinnedSetsOf(change.After)
	if len(before)+len(after) == 0 {
		return c
	}
	placed := NewPinPlacements(c.Rollout)
	pinned, consumers := map[Pin]bool{}, map[string][]policy.Consumer{}
	ofSet := map[string]bool{} // all that the change knows
	for _, s := range before {
		ofSet[s.Name] = true
		for _, image := range s.Spec.PinnedImages {
			consumers[string(image.Name)] = nil // unless it is still there
			for _, pool := range placed.Pools(s) {
				pinned[Pin{string(image.Name), pool}] = true
			}
		}
	}
	var brought []string
	for _, s := range after {
		ofSet[s.Name] = true
		for i, image := range s.Spec.PinnedImages {
			ref := string(image.Name)
			consumers[ref] = append(consumers[ref], policy.Consumer{Kind: PinnedSetKind, Name: s.Name, Container: fmt.Sprintf("spec.pinnedImages[%d].name", i), Placement: placed.of(s)})
			if slices.ContainsFunc(placed.Pools(s), func(pool string) bool { return !pinned[Pin{ref, pool}] }) {
				brought = append(brought, ref)
			}
		}
	}
	c.Images = pinnedBy(c.Images, consumers, ofSet)
	return c.pinning(brought)
}

// pinning returns c with images that a change brings by PinnedImageSets.
func (c Cluster) pinning(refs []string) Cluster {
	if len(refs) == 0 {
		return c
	}
	brought := map[string]bool{}
	for ref := range c.brought {
		brought[ref] = true
	}
	c.pins = map[string]bool{}
	for _, ref := range refs {
		if !brought[ref] { // else something else that is brought needs it too, and its rule may not be weakened by that for pins
			c.pins[ref] = true
		}
		brought[ref] = true
	}
	c.brought = brought
	return c
}

// pinnedBy returns x with the consumers that are PinnedImageSets, those of ofSet, replaced.
func pinnedBy(x policy.Images, consumers map[string][]policy.Consumer, ofSet map[string]bool) policy.Images {
	var index policy.ImageIndex
	if x.Ordered != nil {
		index.Ordered = x.Ordered.Copy()
	}
	for ref, pins := range consumers {
		img := x.Find(ref)
		others := slices.DeleteFunc(slices.Clone(img.Consumers), func(c policy.Consumer) bool { return c.Kind == PinnedSetKind && ofSet[c.Name] })
		img.Consumers = append(others, pins...)
		if len(img.Consumers) == 0 {
			index.Delete(ref)
			continue
		}
		index.Put(img)
	}
	return index.Images()
}

// PinnedSetsOf returns the PinnedImageSets of s.
func PinnedSetsOf(s mirrors.Set) []*mcfgv1.PinnedImageSet {
	var sets []*mcfgv1.PinnedImageSet
	for _, o := range s.Pinned {
		if set, ok := o.(*mcfgv1.PinnedImageSet); ok {
			sets = append(sets, set)
		}
	}
	return sets
}

// PinPlacements says which pools take PinnedImageSets, and on which nodes those are pulled.
type PinPlacements struct {
	All   []*mcfgv1.MachineConfigPool
	Known bool
	nodes map[string]*policy.Placement // by the name of the set
}

// NewPinPlacements returns those for the pools of a cluster, which may be nil.
func NewPinPlacements(through *rollout.Cluster) *PinPlacements {
	p := &PinPlacements{nodes: map[string]*policy.Placement{}}
	if through != nil && !slices.Contains(through.Unknown, "machineconfigpools") {
		p.All, p.Known = through.Pools, true
	}
	return p
}

// Pools returns the names of the pools that take a set: "" where they are not known.
func (p *PinPlacements) Pools(set *mcfgv1.PinnedImageSet) []string {
	if !p.Known {
		return []string{""}
	}
	var names []string
	for _, pool := range p.All {
		if rollout.TakesPinnedSet(pool, set) {
			names = append(names, pool.Name)
		}
	}
	return names
}

// Members returns the nodes of known pools that pull the images of a set.
func (p *PinPlacements) Members(set *mcfgv1.PinnedImageSet, through *rollout.Cluster) []*corev1.Node {
	var nodes []*corev1.Node
	for _, pool := range p.All {
		if rollout.TakesPinnedSet(pool, set) {
			nodes = append(nodes, through.PinNodes(pool)...)
		}
	}
	return nodes
}

// of returns the nodes that the pools of a set select; nil, which is any, where that is not known.
func (p *PinPlacements) of(set *mcfgv1.PinnedImageSet) *policy.Placement {
	if placement, known := p.nodes[set.Name]; known || !p.Known {
		return placement
	}
	nodes, every := &corev1.NodeSelector{}, false
	for _, pool := range p.All {
		if rollout.TakesPinnedSet(pool, set) && pool.Spec.NodeSelector != nil {
			// Without conditions a selector of labels takes every node, and a term of a NodeSelector none.
			every = every || len(pool.Spec.NodeSelector.MatchLabels)+len(pool.Spec.NodeSelector.MatchExpressions) == 0
			nodes.NodeSelectorTerms = append(nodes.NodeSelectorTerms, nodeTerm(pool.Spec.NodeSelector))
		}
	}
	placement := &policy.Placement{NodeAffinity: nodes}
	if every || len(nodes.NodeSelectorTerms) == 0 {
		placement = nil
	}
	p.nodes[set.Name] = placement
	return placement
}

// nodeTerm returns what selects the same nodes as a selector of labels.
func nodeTerm(s *metav1.LabelSelector) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for key, value := range s.MatchLabels {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	for _, e := range s.MatchExpressions { // the operators have the same names
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values})
	}
	return term
}

// IsPin reports whether the image is judged for PinnedImageSets: the change pins it, or nothing else needs
// it.
func IsPin(a *evidence.Case) bool {
	if a.Pinned {
		return true
	}
	pins := 0
	for _, c := range a.Image.Consumers {
		switch {
		case c.Use == policy.History:
		case c.Kind != PinnedSetKind:
			return false
		default:
			pins++
		}
	}
	return pins > 0
}

// AsPin returns the finding of another rule as that of PinnedImageMissing.
func AsPin(a *evidence.Case, f policy.Finding) policy.Finding {
	f.Rule = policy.PinnedImageMissing
	f.Reason = "nodes would fail to pin it (PinnedImageSetsDegraded): " + f.Reason
	if a.Brief {
		return f
	}
	var sets []string
	for _, c := range a.Image.Consumers {
		if c.Kind == PinnedSetKind {
			sets = append(sets, c.Name)
		}
	}
	slices.Sort(sets)
	f.Detail = append([]string{fmt.Sprintf("one image that is missing fails the whole set: %s", text.Names(slices.Compact(sets), MaxNamed))}, f.Detail...)
	return f
}

// ImageSize returns how much of an image a node fetches, compressed; 0 if that is not known. Counted is what MCO's
// daemon counts: of an index it reads no layers (getImageSize in pkg/daemon/pinned_image_set.go:1132).
func (p *Plan) ImageSize(ref string, facts policy.Facts) (size, counted int64) {
	for i := range p.Reroutes {
		if r := &p.Reroutes[i]; r.Image.Ref == ref {
			for _, l := range r.After.Open() {
				if f := facts.At(l); f.Presence == policy.Present && f.Size > 0 {
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
