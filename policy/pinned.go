package policy

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// pinnedSetKind is the Kind of consumers that are PinnedImageSets.
const pinnedSetKind = "PinnedImageSet"

// A pin is an image that nodes of a pool are to hold; the pool is "" where pools are not known.
type pin struct{ ref, pool string }

// withPins returns c as PinnedImageSets are after change: as consumers that run on the nodes of the pools
// that take them. The change brings the images that a set newly names, or newly has for a pool.
func (c Cluster) withPins(change Change) Cluster {
	before, after := pinnedSetsOf(change.Before), pinnedSetsOf(change.After)
	if len(before)+len(after) == 0 {
		return c
	}
	placed := newPinPlacements(c.Rollout)
	pinned, consumers := map[pin]bool{}, map[string][]Consumer{}
	ofSet := map[string]bool{} // all that the change knows
	for _, s := range before {
		ofSet[s.Name] = true
		for _, image := range s.Spec.PinnedImages {
			consumers[string(image.Name)] = nil // unless it is still there
			for _, pool := range placed.pools(s) {
				pinned[pin{string(image.Name), pool}] = true
			}
		}
	}
	var brought []string
	for _, s := range after {
		ofSet[s.Name] = true
		for i, image := range s.Spec.PinnedImages {
			ref := string(image.Name)
			consumers[ref] = append(consumers[ref], Consumer{Kind: pinnedSetKind, Name: s.Name, Container: fmt.Sprintf("spec.pinnedImages[%d].name", i), Placement: placed.of(s)})
			if slices.ContainsFunc(placed.pools(s), func(pool string) bool { return !pinned[pin{ref, pool}] }) {
				brought = append(brought, ref)
			}
		}
	}
	c.Images = c.Images.pinnedBy(consumers, ofSet)
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
func (x Images) pinnedBy(consumers map[string][]Consumer, ofSet map[string]bool) Images {
	var index ImageIndex
	if x.ordered != nil {
		index.ordered = x.ordered.Copy()
	}
	for ref, pins := range consumers {
		img := x.find(ref)
		others := slices.DeleteFunc(slices.Clone(img.Consumers), func(c Consumer) bool { return c.Kind == pinnedSetKind && ofSet[c.Name] })
		img.Consumers = append(others, pins...)
		if len(img.Consumers) == 0 {
			index.Delete(ref)
			continue
		}
		index.Put(img)
	}
	return index.Images()
}

func pinnedSetsOf(s mirrors.Set) []*mcfgv1.PinnedImageSet {
	var sets []*mcfgv1.PinnedImageSet
	for _, o := range s.Pinned {
		if set, ok := o.(*mcfgv1.PinnedImageSet); ok {
			sets = append(sets, set)
		}
	}
	return sets
}

// pinPlacements says which pools take PinnedImageSets, and on which nodes those are pulled.
type pinPlacements struct {
	all   []*mcfgv1.MachineConfigPool
	known bool
	nodes map[string]*Placement // by the name of the set
}

func newPinPlacements(through *rollout.Cluster) *pinPlacements {
	p := &pinPlacements{nodes: map[string]*Placement{}}
	if through != nil && !slices.Contains(through.Unknown, "machineconfigpools") {
		p.all, p.known = through.Pools, true
	}
	return p
}

// pools returns the names of the pools that take a set: "" where they are not known.
func (p *pinPlacements) pools(set *mcfgv1.PinnedImageSet) []string {
	if !p.known {
		return []string{""}
	}
	var names []string
	for _, pool := range p.all {
		if rollout.TakesPinnedSet(pool, set) {
			names = append(names, pool.Name)
		}
	}
	return names
}

// members returns the nodes of known pools that pull the images of a set.
func (p *pinPlacements) members(set *mcfgv1.PinnedImageSet, through *rollout.Cluster) []*corev1.Node {
	var nodes []*corev1.Node
	for _, pool := range p.all {
		if rollout.TakesPinnedSet(pool, set) {
			nodes = append(nodes, through.PinNodes(pool)...)
		}
	}
	return nodes
}

// of returns the nodes that the pools of a set select; nil, which is any, where that is not known.
func (p *pinPlacements) of(set *mcfgv1.PinnedImageSet) *Placement {
	if placement, known := p.nodes[set.Name]; known || !p.known {
		return placement
	}
	nodes, every := &corev1.NodeSelector{}, false
	for _, pool := range p.all {
		if rollout.TakesPinnedSet(pool, set) && pool.Spec.NodeSelector != nil {
			// Without conditions a selector of labels takes every node, and a term of a NodeSelector none.
			every = every || len(pool.Spec.NodeSelector.MatchLabels)+len(pool.Spec.NodeSelector.MatchExpressions) == 0
			nodes.NodeSelectorTerms = append(nodes.NodeSelectorTerms, nodeTerm(pool.Spec.NodeSelector))
		}
	}
	placement := &Placement{NodeAffinity: nodes}
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

// isPin reports whether the image is judged for PinnedImageSets: the change pins it, or nothing else needs
// it.
func (a *assessment) isPin() bool {
	if a.pinned {
		return true
	}
	pins := 0
	for _, c := range a.Image.Consumers {
		switch {
		case c.Use == History:
		case c.Kind != pinnedSetKind:
			return false
		default:
			pins++
		}
	}
	return pins > 0
}

// asPin returns the finding of another rule as that of PinnedImageMissing.
func (a *assessment) asPin(f Finding) Finding {
	f.Rule = PinnedImageMissing
	f.Reason = "nodes would fail to pin it (PinnedImageSetsDegraded): " + f.Reason
	if a.brief {
		return f
	}
	var sets []string
	for _, c := range a.Image.Consumers {
		if c.Kind == pinnedSetKind {
			sets = append(sets, c.Name)
		}
	}
	slices.Sort(sets)
	f.Detail = append([]string{fmt.Sprintf("one image that is missing fails the whole set: %s", text.Names(slices.Compact(sets), maxNamed))}, f.Detail...)
	return f
}
