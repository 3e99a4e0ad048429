package settings

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An Exemption turns denials into warnings. All of its conditions must hold, each list by one of its
// entries; an empty list does not restrict it. It is applied only if it certainly holds:
//
//   - An image with consumers that it does not cover is denied because of those. Several
//     exemptions may cover the consumers of an image together.
//   - Findings about the configuration as a whole, and those that stand for unknown images,
//     are covered only with Protected, and without Images and
//     Namespaces. The same goes for rollouts that stall, which harm the whole cluster.
//   - A change of several objects is covered if MirrorSets hold for all
//     of them, and if it changes nothing else. It then covers the images whose new route such objects
//     alone decide: not those for which another entry counts, or none, once an exempt one is gone.
type Exemption struct {
	// Name is what warnings and records call the exemption.
	Name string
	// Images are patterns as ImagePattern reads them.
	Images []string
	// Namespaces are patterns as in Settings.Protected, of consumers' namespaces. None
	// matches a cluster-scoped consumer.
	Namespaces []string
	// MirrorSets are names of the changed ImageTagMirrorSets, ImageDigestMirrorSets and
	// ImageContentSourcePolicies; a trailing * matches any ending.
	MirrorSets []string
	// Users and Groups say who makes the change: one of either list is enough. A trailing *
	// matches any ending. They count only in Settings that For has returned.
	Users, Groups []string
	// Sources, of an exemption for mirror sets, are those that only such sets have after the
	// change: it covers images that they decide about, and not what others do once an exempt set
	// is gone. nil for an exemption that is not restricted so.
	Sources map[Ruled]bool
	// loosens is set, in addition, where the change takes a source from an exempt set.
	loosens bool
	// Protected extends the exemption to images of protected namespaces, to those of
	// cluster-scoped consumers, and to the configuration as a whole.
	Protected bool
}

// A Requester is the user who asks for a change, as the API server has authenticated them. The zero
// value is an unknown user.
type Requester struct {
	User   string
	Groups []string
}

func (e Exemption) isPersonal() bool { return len(e.Users)+len(e.Groups) > 0 }

func (e Exemption) holdsFor(r Requester) bool {
	return r.User != "" && matchesAny(e.Users, r.User) ||
		slices.ContainsFunc(r.Groups, func(group string) bool { return group != "" && matchesAny(e.Groups, group) })
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return policy.MatchesName(p, name) })
}

// A Ruled is a source, for pulls by digest or by tag.
type Ruled struct {
	Source  string
	Digests bool
}

// within returns e with what it covers of c.
func (e Exemption) within(c policy.Change) Exemption {
	if len(e.MirrorSets) == 0 {
		return e
	}
	e.Sources = map[Ruled]bool{}
	stays := map[[2]string]bool{} // by source and object
	for _, after := range c.After.Entries() {
		stays[[2]string{after.Source, mirrors.NameOf(after.Object)}] = true
		ofTags := mirrors.KindOf(after.Object) == mirrors.TagMirrorSetGVK.Kind
		for _, digests := range []bool{!ofTags, ofTags} {
			if digests == ofTags && after.Policy != configv1.NeverContactSource {
				continue // of the other pull type, an entry decides only that it is blocked
			}
			key := Ruled{after.Source, digests}
			covered, known := e.Sources[key]
			e.Sources[key] = (covered || !known) && e.holdsForObject(after.Object)
		}
	}
	for _, before := range c.Before.Entries() {
		e.loosens = e.loosens || e.holdsForObject(before.Object) && !stays[[2]string{before.Source, mirrors.NameOf(before.Object)}]
	}
	return e
}

func (e Exemption) holdsForChange(c policy.Change) bool {
	if len(e.MirrorSets) == 0 {
		return true
	}
	changed, others := c.ChangedMirrorSets()
	return !others && len(changed) > 0 && !slices.ContainsFunc(changed, func(o mirrors.Object) bool { return !e.holdsForObject(o) })
}

func (e Exemption) holdsForObject(o mirrors.Object) bool {
	return matchesAny(e.MirrorSets, o.GetName())
}
