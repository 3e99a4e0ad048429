package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Bringing returns c with images that a change brings beside mirror objects: a catalog is pulled once it is
// applied, whether the change reroutes it or not. Those are judged as if it were not known what nodes do
// today, since nothing pulls them.
func (c Cluster) Bringing(images []policy.Image) Cluster {
	if len(images) == 0 {
		return c
	}
	var index policy.ImageIndex
	for img := range c.Images.All() {
		index.Put(img)
	}
	refs := map[string]bool{}
	for _, img := range images {
		refs[img.Ref] = true
		img.Consumers = slices.Concat(c.Images.Find(img.Ref).Consumers, img.Consumers)
		index.Put(img)
	}
	c.Images, c.brought = index.Images(), refs
	return c
}

// brought returns a Reroute for each image that the change brings, and those that no node can parse. An image that the
// change reroutes too has one of its own for that: pods, or history, that do without it today are no reason to pin it,
// or to run a catalog of it.
func brought(c policy.Change, r resolution, known *Cluster, s *settings.Settings) (reroutes []evidence.Reroute, malformed []policy.Image) {
	if r.After == nil {
		return nil, nil
	}
	for _, ref := range slices.Sorted(maps.Keys(known.brought)) {
		img := known.Images.Find(ref)
		parts := r.byPolicy(img, r.ownPolicies())
		for _, namespace := range slices.Sorted(maps.Keys(parts)) {
			route, err := r.After.Route(ref, namespace)
			if err != nil {
				malformed = append(malformed, img)
				break
			}
			reroutes = append(reroutes, evidence.Reroute{
				Image: AsPulled(s, parts[namespace], &route, known), Namespace: namespace, BeforeUnknown: true, Brought: true, Pinned: known.pins[ref], After: route,
			})
		}
	}
	return reroutes, malformed
}

// ocMirrorName matches the names that oc-mirror v2 gives its mirror objects whatever the image set
// (v2/internal/pkg/clusterresources): those of another image set replace them.
var ocMirrorName = regexp.MustCompile(`^(idms|itms)-(release|operator|generic|helm)-\d+$`)

// isOfOCMirror reports whether oc-mirror made an object.
func isOfOCMirror(o mirrors.Object) bool {
	return ocMirrorName.MatchString(o.GetName()) || strings.HasPrefix(o.GetAnnotations()["createdBy"], "oc-mirror")
}

// OCMirrorNotes says of objects that oc-mirror made what it does not say itself: that one takes the place
// of another image set's, with the sources that go, and that a source is a whole registry.
func OCMirrorNotes(c policy.Change) []string {
	var notes []string
	changed, _ := c.ChangedMirrorSets()
	seen := map[string]bool{}
	for _, o := range changed {
		name := mirrors.NameOf(o)
		if seen[name] || !isOfOCMirror(o) {
			continue
		}
		seen[name] = true
		before, after := sourcesOfObject(c.Before, name), sourcesOfObject(c.After, name)
		gone := slices.DeleteFunc(slices.Clone(before), func(s string) bool { return slices.Contains(after, s) })
		if len(after) > 0 && len(gone) > 0 {
			notes = append(notes, fmt.Sprintf("%s REPLACES the one in force, which may have been made of another image set: oc-mirror gives both the same name. %s: %s. To keep both, rename one",
				name, OneOrMany(gone, "This source goes", "These sources go"), text.Names(gone, maxGone)))
		}
		wide := slices.DeleteFunc(slices.Clone(after), func(s string) bool { return strings.Contains(s, "/") })
		if len(wide) > 0 {
			notes = append(notes, fmt.Sprintf("%s covers %s: %s. oc-mirror has mirrored only a part of it", name, OneOrMany(wide, "a whole registry", "whole registries"), text.Names(wide, MaxNamed)))
		}
	}
	return notes
}

// OneOrMany returns one or many, by how many names there are.
func OneOrMany(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// maxGone is how many sources that go are named.
const maxGone = 20

// sourcesOfObject returns the sources of an object in s, sorted; none if it is not there.
func sourcesOfObject(s mirrors.Set, name string) []string {
	var sources []string
	for _, e := range s.Entries() {
		if mirrors.NameOf(e.Object) == name {
			sources = append(sources, e.Source)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}
