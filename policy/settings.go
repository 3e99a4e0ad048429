package policy

import "slices"

// Settings are the choices an administrator has. The zero value is the default.
type Settings struct {
	// Mode is the treatment of changes that are denied.
	Mode Mode
	// Exemptions make warnings of denials.
	Exemptions []Exemption
	// Protected are patterns of namespaces, the most important first, whose
	// images are looked up and named first ("openshift-ingress", "openshift-*").
	// Nil means DefaultProtected.
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
	Severities map[string]Severity
	// Namespaces say which namespaces may block a change; the first pattern that matches
	// counts. An image used only in namespaces with Warn is never denied, unless one of them
	// is protected. Namespaces that no pattern matches may block changes.
	Namespaces []NamespaceSeverity
}

// A NamespaceSeverity is the greatest severity of findings about images of some namespaces.
type NamespaceSeverity struct {
	Pattern  string // as in Settings.Protected
	Severity Severity
}

// OwnNamespace is where the guard runs. Without its image no mirror set can be changed,
// not even to repair one.
const OwnNamespace = "mirrorset-guard"

// DefaultProtected are the namespaces without which a cluster does not recover: the guard's
// own, then the ingress routers before everything else, because they block the drain.
var DefaultProtected = []string{OwnNamespace, "openshift-ingress", "openshift-*", "kube-*"}

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

// A Mode is the treatment of changes that the rules deny. The zero value refuses them.
type Mode int

const (
	// ModeEnforce refuses the change.
	ModeEnforce Mode = iota
	// ModeWarn admits it, with warnings that say what would have been denied.
	ModeWarn
	// ModeAudit admits it in silence; only the records of the guard tell.
	ModeAudit
)

// String implements fmt.Stringer.
func (m Mode) String() string {
	return [...]string{ModeEnforce: "enforce", ModeWarn: "warn", ModeAudit: "audit"}[m]
}
