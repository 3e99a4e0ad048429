package policy

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Change is a step from one mirror configuration to another.
type Change struct {
	Before, After mirrors.Set
}

// at returns c as the nodes of a pool see it.
func (c Change) at(pool string) Change { return Change{c.Before.At(pool), c.After.At(pool)} }

// added returns the entries after c that were not there before. Most objects are the very
// same ones after a change, and have none.
func added(c Change) []mirrors.Entry {
	altered := mirrors.Set{Objects: without(c.After.Objects, c.Before.Objects)}.Entries()
	if len(altered) == 0 {
		return nil
	}
	sources := make(map[string]bool, len(altered))
	for _, e := range altered {
		sources[e.Source] = true
	}
	before := map[string]bool{}
	for _, e := range c.Before.Entries() {
		if sources[e.Source] {
			before[entryKey(e)] = true
		}
	}
	return slices.DeleteFunc(altered, func(e mirrors.Entry) bool { return before[entryKey(e)] })
}

// without returns those of objects that are not among others.
func without(objects, others []mirrors.Object) []mirrors.Object {
	known := make(map[mirrors.Object]bool, len(others))
	for _, o := range others {
		known[o] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o mirrors.Object) bool { return known[o] })
}

// onlyDeletes reports whether c takes objects away, and alters none.
func (c Change) onlyDeletes() bool {
	less := func(of, than mirrors.Set) int {
		return len(without(of.Objects, than.Objects)) + len(differing(of.Policies, than.Policies)) + len(differing(of.Pinned, than.Pinned))
	}
	return c.keepsLists() && c.keepsFiles() && less(c.After, c.Before) == 0 && less(c.Before, c.After) > 0
}

// onlyShrinks reports whether c only removes entries, or mirrors from entries.
func (c Change) onlyShrinks() bool {
	before := map[string][][]string{}
	for _, e := range c.Before.Entries() {
		// Each is compared with each, hence a limit. Entries beyond it can still be removed
		// as a whole.
		if key := entryIdentity(e); len(before[key]) < mirrors.MaxMirrors {
			before[key] = append(before[key], e.Mirrors)
		}
	}
	return c.keepsLists() && c.keepsFiles() && !slices.ContainsFunc(added(c), func(e mirrors.Entry) bool {
		return !slices.ContainsFunc(before[entryIdentity(e)], func(was []string) bool { return mirrors.IsPart(e.Mirrors, was) })
	})
}

// entryIdentity returns everything about an entry except its mirrors.
func entryIdentity(e mirrors.Entry) string {
	return strings.Join([]string{mirrors.KindOf(e.Object), e.Source, string(e.Policy)}, " ")
}

// entryKey returns everything about an entry that reaches nodes.
func entryKey(e mirrors.Entry) string {
	return strings.Join(append([]string{entryIdentity(e)}, e.Mirrors...), " ")
}

// keepsLists reports whether c leaves the registry lists as they are.
func (c Change) keepsLists() bool {
	lists := func(s mirrors.Set) []string {
		r := s.Registries
		return slices.Concat(r.InsecureRegistries, []string{""}, r.BlockedRegistries, []string{""},
			r.AllowedRegistries, []string{""}, r.ContainerRuntimeSearchRegistries)
	}
	return slices.Equal(lists(c.Before), lists(c.After))
}

// keepsFiles reports whether c leaves the files of MachineConfigs as they are.
func (c Change) keepsFiles() bool {
	return mirrors.Set{Files: c.Before.Files}.Equal(mirrors.Set{Files: c.After.Files})
}

// KeepsRoutes reports whether nodes of all pools do the same for every reference before and after c, in use or not. It is
// false where that is not known, as MCO rejects a configuration.
func (c Change) KeepsRoutes() bool {
	for _, variant := range c.Before.Variants(c.After) {
		on := c.at(variant.Set.Pool)
		before, errBefore := mirrors.Resolve(on.Before)
		after, errAfter := mirrors.Resolve(on.After)
		if errBefore != nil || errAfter != nil {
			return false
		}
		if changed := mirrors.CompareScopes(before, after); changed.Everything || len(changed.Scopes) > 0 {
			return false
		}
	}
	return true
}

// neverContact returns, by source, the objects that block it for nodes. An entry
// without a real mirror is dropped by the generator, its policy with it.
func neverContact(s mirrors.Set) map[string][]string {
	never := map[string][]string{}
	for _, e := range s.Entries() {
		if e.Policy == configv1.NeverContactSource && e.HasMirror() {
			never[e.Source] = append(never[e.Source], mirrors.NameOf(e.Object))
		}
	}
	return never
}

// changedMirrorSets returns the mirror sets that c changes, as they are before it and as they
// are after it, and whether it changes something else too.
func (c Change) changedMirrorSets() (changed []mirrors.Object, others bool) {
	changed = append(differing(c.Before.Objects, c.After.Objects), differing(c.After.Objects, c.Before.Objects)...)
	others = !c.keepsLists() || !c.keepsFiles() || c.Before.TrustedCA != c.After.TrustedCA || !slices.Equal(c.Before.ImportFrom, c.After.ImportFrom) || c.changesPins() ||
		len(differing(c.Before.Policies, c.After.Policies))+len(differing(c.After.Policies, c.Before.Policies)) > 0
	return changed, others
}

// differing returns the objects that others lacks or has with other contents.
func differing(objects, others []mirrors.Object) []mirrors.Object {
	byName := make(map[string]mirrors.Object, len(others))
	for _, o := range others {
		byName[mirrors.NameOf(o)] = o
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o mirrors.Object) bool {
		other, ok := byName[mirrors.NameOf(o)]
		return ok && mirrors.SameSpec(o, other)
	})
}

// onlyPins reports whether c alters PinnedImageSets and nothing else.
func (c Change) onlyPins() bool {
	if !c.changesPins() {
		return false
	}
	before := c.Before
	before.Pinned = c.After.Pinned
	return before.Equal(c.After)
}

// changesPins reports whether c alters PinnedImageSets.
func (c Change) changesPins() bool {
	return len(differing(c.After.Pinned, c.Before.Pinned))+len(differing(c.Before.Pinned, c.After.Pinned)) > 0
}
