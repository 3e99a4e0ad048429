package policy

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
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

// For returns s for changes by r: exemptions of other users are gone, and the rest holds for r.
func (s Settings) For(r Requester) Settings {
	var exemptions []Exemption
	for _, e := range s.Exemptions {
		if e.isPersonal() && !e.holdsFor(r) {
			continue
		}
		e.Users, e.Groups = nil, nil
		exemptions = append(exemptions, e)
	}
	s.Exemptions = exemptions
	return s
}

func (e Exemption) isPersonal() bool { return len(e.Users)+len(e.Groups) > 0 }

func (e Exemption) holdsFor(r Requester) bool {
	return r.User != "" && matchesAny(e.Users, r.User) ||
		slices.ContainsFunc(r.Groups, func(group string) bool { return group != "" && matchesAny(e.Groups, group) })
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// ForChange returns s with the exemptions that hold for c.
func (s Settings) ForChange(c Change) Settings {
	var exemptions []Exemption
	for _, e := range s.Exemptions {
		if !e.isPersonal() && e.holdsForChange(c) {
			exemptions = append(exemptions, e.within(c))
		}
	}
	s.Exemptions = exemptions
	return s
}

// A Ruled is a source, for pulls by digest or by tag.
type Ruled struct {
	Source  string
	Digests bool
}

// within returns e with what it covers of c.
func (e Exemption) within(c Change) Exemption {
	if len(e.MirrorSets) == 0 {
		return e
	}
	e.Sources = map[Ruled]bool{}
	for _, after := range c.After.Entries() {
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
		e.loosens = e.loosens || e.holdsForObject(before.Object) && !slices.ContainsFunc(c.After.Entries(), func(after mirrors.Entry) bool {
			return after.Source == before.Source && mirrors.NameOf(after.Object) == mirrors.NameOf(before.Object)
		})
	}
	return e
}

// ForWhole returns s with the exemptions that cover a change as a whole.
func (s Settings) ForWhole() Settings {
	return s.Without(func(e Exemption) bool { return e.loosens })
}

// Without returns s without the exemptions for which uncovered holds.
func (s Settings) Without(uncovered func(Exemption) bool) Settings {
	if slices.ContainsFunc(s.Exemptions, uncovered) {
		s.Exemptions = slices.DeleteFunc(slices.Clone(s.Exemptions), uncovered)
	}
	return s
}

// ForNoChange returns s with the exemptions that depend on no change.
func (s Settings) ForNoChange() Settings { return s.ForChange(Change{}) }

func (e Exemption) holdsForChange(c Change) bool {
	if len(e.MirrorSets) == 0 {
		return true
	}
	changed, others := c.ChangedMirrorSets()
	return !others && len(changed) > 0 && !slices.ContainsFunc(changed, func(o mirrors.Object) bool { return !e.holdsForObject(o) })
}

func (e Exemption) holdsForObject(o mirrors.Object) bool {
	return matchesAny(e.MirrorSets, o.GetName())
}

// Settle returns f with the severity that the settings give it. Unseen is set for a finding
// that stands for unknown images, which may be protected.
func (s Settings) Settle(f Finding, unseen bool) Finding {
	f.Severity = s.severity(f, unseen)
	if f.Severity != Deny {
		return f
	}
	if names := s.exemptionsOf(f.Image, unseen); len(names) > 0 {
		f.Severity, f.Exemptions = Warn, names
	}
	return f
}

// exemptionsOf returns, in the order of the settings, the names of the exemptions that cover a denial about img, or about the
// cluster if its reference is "" or if it stands for others; nil if they do not cover it.
func (s Settings) exemptionsOf(img Image, unseen bool) []string {
	if img.Ref == "" || unseen {
		return named(s.exemption(func(e Exemption) bool { return e.Protected && len(e.Images)+len(e.Namespaces) == 0 }))
	}
	if len(img.Consumers) == 0 {
		return named(s.exemptionFor(img.Ref, Consumer{}))
	}
	needed := map[string]bool{}
	for _, c := range img.Consumers {
		if s.maxSeverityFor(c) < Deny {
			continue
		}
		name := s.exemptionFor(img.Ref, c)
		if name == "" {
			return nil
		}
		needed[name] = true
	}
	var names []string
	for _, e := range s.Exemptions {
		if needed[e.Name] {
			names = append(names, e.Name)
		}
	}
	return names
}

func named(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// exemptionFor returns the name of the first exemption that covers a consumer of an image; ""
// if there is none.
func (s Settings) exemptionFor(ref string, c Consumer) string {
	vital := s.IsProtectedNamespace(c.Namespace)
	return s.exemption(func(e Exemption) bool {
		return (e.Protected || !vital) &&
			(len(e.Namespaces) == 0 || c.Namespace != "" && matchesAny(e.Namespaces, c.Namespace)) &&
			(len(e.Images) == 0 || slices.ContainsFunc(e.Images, func(p string) bool { return ImagePattern(p).Matches(ref) }))
	})
}

func (s Settings) exemption(covers func(Exemption) bool) string {
	if i := slices.IndexFunc(s.Exemptions, covers); i >= 0 {
		return s.Exemptions[i].Name
	}
	return ""
}

// An ImagePattern is one of these:
//
//   - "*": every image
//   - "*.example.com": those of all hosts below a domain
//   - "quay.io", "quay.io/team", "quay.io/team/app": those in a scope, as the sources of
//     mirror sets are
//   - "quay.io/team/app:v1", "quay.io/team/app@sha256:...": one image
//
// It matches the image, not its spelling: nodes drop a tag beside a digest, take the tag
// "latest" where there is none, and a registry has several names (mirrors.OneSpelling). A short name is
// matched by "*" only, as it may stand for images of several registries.
type ImagePattern string

// AllImages is the pattern of every image.
const AllImages ImagePattern = "*"

// Valid reports whether p is one of the above.
func (p ImagePattern) Valid() bool {
	if p == AllImages {
		return true
	}
	scope := string(p)
	if suffix, ok := strings.CutPrefix(scope, "*."); ok {
		return suffix != "" && !strings.ContainsAny(suffix, "/:@*")
	}
	if strings.ContainsAny(scope, "* \t\n") || strings.HasSuffix(scope, "/") {
		return false
	}
	host, path, found := strings.Cut(scope, "/")
	if !found {
		_, _, ok := mirrors.Canonical(scope + "/x")
		return ok && host != "" && !strings.Contains(host, "@")
	}
	_, _, ok := mirrors.Canonical(scope)
	return ok && path != ""
}

// Matches reports whether p, which is valid, matches an image.
func (p ImagePattern) Matches(ref string) bool {
	if p == AllImages {
		return true
	}
	name, version, ok := mirrors.Canonical(ref)
	if !ok {
		return false
	}
	if suffix, ok := strings.CutPrefix(string(p), "*"); ok {
		host, _, _ := strings.Cut(mirrors.HostOf(name), ":")
		return strings.HasSuffix(host, suffix)
	}
	scope := string(p)
	if !policyfile.IsVersioned(scope) {
		return mirrors.IsBelow(name, scope) || strings.HasPrefix(mirrors.OneSpelling(name)+"/", mirrors.OneSpelling(scope)+"/")
	}
	wantName, wantVersion, ok := mirrors.Canonical(scope)
	return ok && version == wantVersion && mirrors.SamePlace(name, wantName)
}
