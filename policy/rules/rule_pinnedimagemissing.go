package rules

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// pinnedImageMissing objects to PinnedImageSets of the change that MCO cannot give to nodes, or gives to none.
// An image that nodes cannot pull is for the rules that look at images: see plan.AsPin.
func pinnedImageMissing(p plan.ChangePlan, facts policy.Facts) []policy.Finding {
	var findings []policy.Finding
	placed := plan.NewPinPlacements(p.Known.Rollout)
	counts, before := counts(placed, p.Change.After), counts(placed, p.Change.Before)
	was := map[string]*mcfgv1.PinnedImageSet{}
	for _, set := range plan.PinnedSetsOf(p.Change.Before) {
		was[set.Name] = set
	}
	for _, o := range policy.Differing(p.Change.After.Pinned, p.Change.Before.Pinned) {
		set, ok := o.(*mcfgv1.PinnedImageSet)
		if !ok {
			continue
		}
		findings = append(findings, invalidPins(set, was[set.Name])...)
		pools := placed.Pools(set)
		switch {
		case !placed.Known:
			findings = append(findings, pinFinding(policy.Warn, set, "it is not known which pools take it, so that it is judged for nodes of all", nil, "let the guard read machineconfigpools"))
		case len(pools) == 0:
			findings = append(findings, pinFinding(policy.Warn, set, "no MachineConfigPool takes it, so that no node pulls its images", selectors(placed), labelRemedy(set, placed.All)))
		}
		findings = append(findings, tooLargeToPin(&p, set, was[set.Name], placed.Members(set, p.Known.Rollout), facts)...)
		for _, pool := range pools {
			if placed.Known && counts[pool] > rollout.MaxPinnedSets {
				findings = append(findings, pinFinding(denyIf(counts[pool] > before[pool]), set, fmt.Sprintf("pool %s would have %d sets, and a pool takes %d: MCO could add none any more", pool, counts[pool], rollout.MaxPinnedSets),
					nil, "put the images of several sets into one"))
			}
		}
	}
	return findings
}

// counts says how many sets each pool takes.
func counts(p *plan.PinPlacements, s mirrors.Set) map[string]int {
	counts := map[string]int{}
	for _, set := range plan.PinnedSetsOf(s) {
		for _, pool := range p.Pools(set) {
			counts[pool]++
		}
	}
	return counts
}

func denyIf(worse bool) policy.Severity {
	if worse {
		return policy.Deny
	}
	return policy.Warn
}

// invalidPins objects to what an API server refuses of a set, unless its definition is an older one. A fault
// that the set had before (was, nil for none) only warns.
func invalidPins(set, was *mcfgv1.PinnedImageSet) []policy.Finding {
	if was == nil {
		was = &mcfgv1.PinnedImageSet{}
	}
	var findings []policy.Finding
	if n := len(set.Spec.PinnedImages); n > rollout.MaxPinnedImages {
		findings = append(findings, pinFinding(denyIf(n > len(was.Spec.PinnedImages)), set,
			fmt.Sprintf("spec.pinnedImages names %s, and a set takes %d", text.Count(n, "image"), rollout.MaxPinnedImages), nil, "divide it into several sets"))
	}
	var tags []string
	worse := false
	for i, image := range set.Spec.PinnedImages {
		if !mirrors.ByDigest(string(image.Name)) {
			tags = append(tags, fmt.Sprintf("spec.pinnedImages[%d].name: %s", i, image.Name))
			worse = worse || !slices.Contains(was.Spec.PinnedImages, image)
		}
	}
	if len(tags) > 0 {
		findings = append(findings, pinFinding(denyIf(worse), set, text.Plural(len(tags), "image is not named by digest", "images are not named by digest")+", and nodes pin nothing else",
			text.First(tags, plan.MaxNamed, "image"), "name them by digest"))
	}
	return findings
}

func pinFinding(severity policy.Severity, set *mcfgv1.PinnedImageSet, reason string, detail []string, remedy string) policy.Finding {
	return policy.Finding{
		Severity: severity, Reason: mirrors.NameOf(set) + ": " + reason, Detail: detail, Remedy: []string{remedy},
		Statement: &policy.Statement{Objects: []string{mirrors.NameOf(set)}},
	}
}

// selectors says by which labels pools select sets.
func selectors(p *plan.PinPlacements) []string {
	lines := convert.Each(p.All, func(pool *mcfgv1.MachineConfigPool) string {
		return fmt.Sprintf("pool %s takes sets with %s", pool.Name, selectorText(pool))
	})
	slices.Sort(lines)
	return text.First(lines, plan.MaxNamed, "pool")
}

// labelRemedy says which label makes a pool take a set.
func labelRemedy(set *mcfgv1.PinnedImageSet, pools []*mcfgv1.MachineConfigPool) string {
	for _, pool := range pools {
		if pool.Spec.MachineConfigSelector != nil && pool.Spec.MachineConfigSelector.MatchLabels[mcfgv1.MachineConfigRoleLabelKey] == pool.Name {
			return fmt.Sprintf("label it for a pool, as with: oc label pinnedimageset %s --overwrite %s=%s", set.Name, mcfgv1.MachineConfigRoleLabelKey, pool.Name)
		}
	}
	return "label it as the machineConfigSelector of a pool asks"
}

func selectorText(pool *mcfgv1.MachineConfigPool) string {
	s := pool.Spec.MachineConfigSelector
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return "no label: none at all"
	}
	var parts []string
	for key, value := range s.MatchLabels {
		parts = append(parts, key+"="+value)
	}
	slices.Sort(parts)
	for _, e := range s.MatchExpressions {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
	}
	return strings.Join(parts, ", ")
}

// minFree is what MCO's daemon keeps free on a node beside the images of a set (MinFreeStorageAfterPrefetch in
// pkg/daemon/constants/constants.go:138 of machine-config-operator at ab14c8e2843b).
const minFree = 16 << 30

// tooLargeToPin objects to a set that the daemon of a node refuses for its size: where twice the missing images take as
// much as its allocatable ephemeral storage less minFree (checkNodeAllocatableStorage and checkImagePayloadStorage,
// pinned_image_set.go:437). It counts a layer that images share once, so that only the largest image proves that, on a
// node that certainly lacks it; all that a node does not list warn. Unknown nodes or sizes prove nothing.
func tooLargeToPin(p *plan.ChangePlan, set, was *mcfgv1.PinnedImageSet, nodes []*corev1.Node, facts policy.Facts) []policy.Finding {
	var least *corev1.Node
	var worst struct{ room, largest, all int64 }
	proved := false
	sizes := make([]int64, len(set.Spec.PinnedImages))
	for i, image := range set.Spec.PinnedImages {
		_, sizes[i] = p.ImageSize(string(image.Name), facts)
	}
	for _, node := range nodes {
		storage, known := node.Status.Allocatable[corev1.ResourceEphemeralStorage]
		if !known {
			continue
		}
		var largest, all int64
		for i, image := range set.Spec.PinnedImages {
			if listsImage(node, string(image.Name)) {
				continue
			}
			if all += sizes[i]; sizes[i] > storage.Value() || lacks(p, node, string(image.Name)) {
				largest = max(largest, sizes[i])
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
	return []policy.Finding{pinFinding(severity, set, fmt.Sprintf("it does not fit on node %s: %s", least.Name, how),
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
func lacks(p *plan.ChangePlan, node *corev1.Node, ref string) bool {
	if n := len(node.Status.Images); n > 0 && n < maxListedImages {
		return true
	}
	pinned := slices.ContainsFunc(plan.PinnedSetsOf(p.Change.Before), func(s *mcfgv1.PinnedImageSet) bool {
		return slices.Contains(s.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(ref)})
	})
	return !pinned && !slices.ContainsFunc(p.Known.Images.Find(ref).Consumers, func(c policy.Consumer) bool { return c.Kind != plan.PinnedSetKind })
}

// maxListedImages is how many images a kubelet lists (nodeStatusMaxImages).
const maxListedImages = 50
