package policy

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// pinnedImageMissing objects to PinnedImageSets of the change that MCO cannot give to nodes, or gives to none.
// An image that nodes cannot pull is for the rules that look at images: see assessment.asPin.
func pinnedImageMissing(p ChangePlan, facts Facts) []Finding {
	var findings []Finding
	placed := newPinPlacements(p.known.Rollout)
	counts, before := placed.counts(p.change.After), placed.counts(p.change.Before)
	was := map[string]*mcfgv1.PinnedImageSet{}
	for _, set := range pinnedSetsOf(p.change.Before) {
		was[set.Name] = set
	}
	for _, o := range differing(p.change.After.Pinned, p.change.Before.Pinned) {
		set, ok := o.(*mcfgv1.PinnedImageSet)
		if !ok {
			continue
		}
		findings = append(findings, invalidPins(set, was[set.Name])...)
		pools := placed.pools(set)
		switch {
		case !placed.known:
			findings = append(findings, pinFinding(Warn, set, "it is not known which pools take it, so that it is judged for nodes of all", nil, "let the guard read machineconfigpools"))
		case len(pools) == 0:
			findings = append(findings, pinFinding(Warn, set, "no MachineConfigPool takes it, so that no node pulls its images", placed.selectors(), labelRemedy(set, placed.all)))
		}
		findings = append(findings, p.tooLargeToPin(set, was[set.Name], placed.members(set, p.known.Rollout), facts)...)
		for _, pool := range pools {
			if placed.known && counts[pool] > rollout.MaxPinnedSets {
				findings = append(findings, pinFinding(denyIf(counts[pool] > before[pool]), set, fmt.Sprintf("pool %s would have %d sets, and a pool takes %d: MCO could add none any more", pool, counts[pool], rollout.MaxPinnedSets),
					nil, "put the images of several sets into one"))
			}
		}
	}
	return findings
}

// counts says how many sets each pool takes.
func (p *pinPlacements) counts(s mirrors.Set) map[string]int {
	counts := map[string]int{}
	for _, set := range pinnedSetsOf(s) {
		for _, pool := range p.pools(set) {
			counts[pool]++
		}
	}
	return counts
}

func denyIf(worse bool) Severity {
	if worse {
		return Deny
	}
	return Warn
}

// invalidPins objects to what an API server refuses of a set, unless its definition is an older one. A fault
// that the set had before (was, nil for none) only warns.
func invalidPins(set, was *mcfgv1.PinnedImageSet) []Finding {
	if was == nil {
		was = &mcfgv1.PinnedImageSet{}
	}
	var findings []Finding
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
			text.First(tags, maxNamed, "image"), "name them by digest"))
	}
	return findings
}

func pinFinding(severity Severity, set *mcfgv1.PinnedImageSet, reason string, detail []string, remedy string) Finding {
	return Finding{
		Severity: severity, Reason: mirrors.NameOf(set) + ": " + reason, Detail: detail, Remedy: []string{remedy},
		Statement: &Statement{Objects: []string{mirrors.NameOf(set)}},
	}
}

// selectors says by which labels pools select sets.
func (p *pinPlacements) selectors() []string {
	lines := convert.Each(p.all, func(pool *mcfgv1.MachineConfigPool) string {
		return fmt.Sprintf("pool %s takes sets with %s", pool.Name, selectorText(pool))
	})
	slices.Sort(lines)
	return text.First(lines, maxNamed, "pool")
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
