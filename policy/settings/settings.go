// Package settings decides how much weight a finding has: by protected namespaces, severities
// and exemptions. Of the rooms it imports package policy, and package mirrors beside it.
package settings

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Settings are the choices an administrator has. The zero value is the default.
type Settings struct {
	// Mode is the treatment of changes that are denied.
	Mode policy.Mode
	// Exemptions make warnings of denials.
	Exemptions []Exemption
	// Protected are patterns of namespaces, the most important first, whose
	// images are looked up and named first ("openshift-ingress", "openshift-*").
	// Nil means policy.DefaultProtected.
	Protected []string
	// AllowSourceFallback admits, with a warning, an image that no mirror on its new route
	// holds (or could be verified to hold) as long as its source does and may be contacted:
	// for a migration during which the mirror is being filled.
	AllowSourceFallback bool
	// Blobs chooses the images whose config and layers are looked up, not only the manifest. See
	// plan.Outline.Plan and Location.Depth of package mirrors.
	Blobs BlobScope
	// Caches are patterns (ImagePattern) of images at pull-through caches: these have other remedies, but the same verdicts.
	Caches []string
	// Severities replace what rules say by default, by rule id. The denial of an image of a
	// protected namespace is weakened only by an entry whose id is followed by "@protected",
	// so that it cannot happen by mistake. The same goes for findings that stand for unknown
	// images: InventoryStale, and Unverified of a configuration as a
	// whole. No entry turns a warning of RejectedByMCO, or of Unverified about a
	// configuration that is too large to be judged, into a denial: its subject is in force already, and
	// has to be repaired somehow.
	Severities map[string]policy.Severity
	// Namespaces say which namespaces may block a change; the first pattern that matches
	// counts. An image used only in namespaces with Warn is never denied, unless one of them
	// is protected. Namespaces that no pattern matches may block changes.
	Namespaces []NamespaceSeverity
}

// A NamespaceSeverity is the greatest severity of findings about images of some namespaces.
type NamespaceSeverity struct {
	Pattern  string // as in Settings.Protected
	Severity policy.Severity
}

// A BlobScope selects the images whose config and layers are looked up, in addition to
// the manifest. Registries do not accept a manifest whose blobs they lack, so only a copy
// that was damaged or pruned lacks some; and asking costs one more request for each layer
// that images do not share.
type BlobScope int

const (
	// BlobsOfProtected looks them up for images that protected namespaces use. It is the
	// default: such images are few, and have most layers in common.
	BlobsOfProtected BlobScope = iota
	// BlobsOfAll looks them up for all images.
	BlobsOfAll
	// BlobsOfNone looks them up for no image.
	BlobsOfNone
)

// IsCache reports whether a place is at a pull-through cache.
func (s *Settings) IsCache(ref string) bool {
	return slices.ContainsFunc(s.Caches, func(c string) bool { return ImagePattern(c).Matches(ref) })
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

// ForChange returns s with the exemptions that hold for c.
func (s Settings) ForChange(c policy.Change) Settings {
	var exemptions []Exemption
	for _, e := range s.Exemptions {
		if !e.isPersonal() && e.holdsForChange(c) {
			exemptions = append(exemptions, e.within(c))
		}
	}
	s.Exemptions = exemptions
	return s
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
func (s Settings) ForNoChange() Settings { return s.ForChange(policy.Change{}) }
