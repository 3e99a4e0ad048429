package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Change is a step from one mirror configuration to another.
type Change struct {
	Before, After mirrors.Set
}

// At returns c as the nodes of a pool see it.
func (c Change) At(pool string) Change { return Change{c.Before.At(pool), c.After.At(pool)} }

// Added returns the entries after c that were not there before. Most objects are the very
// same ones after a change, and have none.
func Added(c Change) []mirrors.Entry {
	altered := mirrors.Set{Objects: Without(c.After.Objects, c.Before.Objects)}.Entries()
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

// Without returns those of objects that are not among others.
func Without(objects, others []mirrors.Object) []mirrors.Object {
	known := make(map[mirrors.Object]bool, len(others))
	for _, o := range others {
		known[o] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o mirrors.Object) bool { return known[o] })
}

// OnlyDeletes reports whether c takes objects away, and alters none.
func (c Change) OnlyDeletes() bool {
	less := func(of, than mirrors.Set) int {
		return len(Without(of.Objects, than.Objects)) + len(Differing(of.Policies, than.Policies)) + len(Differing(of.Pinned, than.Pinned))
	}
	return c.KeepsLists() && c.KeepsFiles() && less(c.After, c.Before) == 0 && less(c.Before, c.After) > 0
}

// OnlyShrinks reports whether c only removes entries, or mirrors from entries, and nothing else changes.
func (c Change) OnlyShrinks() bool {
	_, others := c.ChangedMirrorSets()
	before := map[string][][]string{}
	for _, e := range c.Before.Entries() {
		// Each is compared with each, hence a limit. Entries beyond it can still be removed
		// as a whole.
		if key := entryIdentity(e); len(before[key]) < mirrors.MaxMirrors {
			before[key] = append(before[key], e.Mirrors)
		}
	}
	return !others && !slices.ContainsFunc(Added(c), func(e mirrors.Entry) bool {
		return !slices.ContainsFunc(before[entryIdentity(e)], func(was []string) bool { return mirrors.IsPart(e.Mirrors, was) })
	})
}

// entryIdentity returns everything about an entry except its mirrors.
func entryIdentity(e mirrors.Entry) string {
	return strings.Join([]string{mirrors.KindOf(e.Object), e.Source, string(cmp.Or(e.Policy, configv1.AllowContactingSource))}, " ")
}

// entryKey returns everything about an entry that reaches nodes.
func entryKey(e mirrors.Entry) string {
	return strings.Join(append([]string{entryIdentity(e)}, e.Mirrors...), " ")
}

// KeepsLists reports whether c leaves the registry lists as they are.
func (c Change) KeepsLists() bool {
	lists := func(s mirrors.Set) []string {
		r := s.Registries
		return slices.Concat(r.InsecureRegistries, []string{""}, r.BlockedRegistries, []string{""},
			r.AllowedRegistries, []string{""}, r.ContainerRuntimeSearchRegistries)
	}
	return slices.Equal(lists(c.Before), lists(c.After))
}

// KeepsFiles reports whether c leaves the files of MachineConfigs as they are.
func (c Change) KeepsFiles() bool {
	return mirrors.Set{Files: c.Before.Files}.Equal(mirrors.Set{Files: c.After.Files})
}

// KeepsRoutes reports whether nodes of all pools do the same for every reference before and after c, in use or not. It is
// false where that is not known, as MCO rejects a configuration.
func (c Change) KeepsRoutes() bool {
	for _, variant := range c.Before.Variants(c.After) {
		on := c.At(variant.Set.Pool)
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

// NeverContact returns, by source, the objects that block it for nodes. An entry
// without a real mirror is dropped by the generator, its policy with it.
func NeverContact(s mirrors.Set) map[string][]string {
	never := map[string][]string{}
	for _, e := range s.Entries() {
		if e.Policy == configv1.NeverContactSource && e.HasMirror() {
			never[e.Source] = append(never[e.Source], mirrors.NameOf(e.Object))
		}
	}
	return never
}

// ChangedMirrorSets returns the mirror sets that c changes, as they are before it and as they
// are after it, and whether it changes something else too.
func (c Change) ChangedMirrorSets() (changed []mirrors.Object, others bool) {
	changed = append(Differing(c.Before.Objects, c.After.Objects), Differing(c.After.Objects, c.Before.Objects)...)
	others = !c.KeepsLists() || !c.KeepsFiles() || c.Before.TrustedCA != c.After.TrustedCA || !slices.Equal(c.Before.ImportFrom, c.After.ImportFrom) || c.ChangesPins() ||
		len(Differing(c.Before.Policies, c.After.Policies))+len(Differing(c.After.Policies, c.Before.Policies)) > 0
	return changed, others
}

// Differing returns the objects that others lacks or has with other contents.
func Differing(objects, others []mirrors.Object) []mirrors.Object {
	byName := make(map[string]mirrors.Object, len(others))
	for _, o := range others {
		byName[mirrors.NameOf(o)] = o
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o mirrors.Object) bool {
		other, ok := byName[mirrors.NameOf(o)]
		return ok && mirrors.SameSpec(o, other)
	})
}

// OnlyPins reports whether c alters PinnedImageSets and nothing else.
func (c Change) OnlyPins() bool {
	if !c.ChangesPins() {
		return false
	}
	before := c.Before
	before.Pinned = c.After.Pinned
	return before.Equal(c.After)
}

// ChangesPins reports whether c alters PinnedImageSets.
func (c Change) ChangesPins() bool {
	return len(Differing(c.After.Pinned, c.Before.Pinned))+len(Differing(c.Before.Pinned, c.After.Pinned)) > 0
}

// ChangedCAs returns the registries for which c changes the CAs that nodes trust.
func (c Change) ChangedCAs() map[string]bool {
	changed := map[string]bool{}
	for host, pem := range c.Before.CAs {
		if now, ok := c.After.CAs[host]; !ok || now != pem {
			changed[host] = true
		}
	}
	for host := range c.After.CAs {
		if _, ok := c.Before.CAs[host]; !ok {
			changed[host] = true
		}
	}
	return changed
}

// Retrusted returns the registries whose images have to be judged by the new CAs; none where
// those are not known, which is denied by a rule of its own (unknownCAs).
func (c Change) Retrusted() map[string]bool {
	if len(UnknownCAsOf(c)) > 0 {
		return nil
	}
	return c.ChangedCAs()
}

// WithProposedTrust returns r with its places at one of hosts marked, and whether there are
// any. At insecure places certificates do not matter.
func WithProposedTrust(r mirrors.Route, hosts map[string]bool) (mirrors.Route, bool) {
	concerned := func(s mirrors.PullSource) bool { return s.Tried() && !s.Insecure && hosts[s.Host()] }
	if !slices.ContainsFunc(r.Sources, concerned) {
		return r, false
	}
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i, s := range r.Sources {
		r.Sources[i].ProposedTrust = concerned(s)
	}
	return r, true
}

// UnknownCAsOf says why the CAs before or after c are not known, if c alters them.
func UnknownCAsOf(c Change) []string {
	unknown := map[string]bool{}
	for _, s := range []mirrors.Set{c.Before, c.After} {
		if s.CAsUnknown != "" && c.Before.TrustedCA != c.After.TrustedCA {
			unknown[s.CAsUnknown] = true
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}
