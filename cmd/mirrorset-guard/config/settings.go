package config

import (
	"maps"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// What the values of the file's enums are in the packages that go by them.
var (
	modes      = map[v1alpha1.Mode]policy.Mode{"enforce": policy.ModeEnforce, "warn": policy.ModeWarn, "audit": policy.ModeAudit}
	severities = map[v1alpha1.Severity]policy.Severity{"deny": policy.Deny, "warn": policy.Warn, "info": policy.Info}
	blobScopes = map[v1alpha1.BlobScope]settings.BlobScope{"all": settings.BlobsOfAll, "protected": settings.BlobsOfProtected, "none": settings.BlobsOfNone}
)

// Settings returns what c says about verdicts. c must have been parsed without mistakes.
func (c Configuration) Settings() settings.Settings {
	s := settings.Settings{
		Mode:                modes[c.Mode],
		Protected:           WithOwn(c.ProtectedNamespaces),
		AllowSourceFallback: c.AllowSourceFallback,
		Blobs:               blobScopes[c.VerifyBlobs],
		Caches:              c.Caches,
		Severities:          map[string]policy.Severity{},
	}
	for rule, severity := range c.Severities {
		s.Severities[rule] = severities[severity]
	}
	for _, n := range c.NamespaceSeverities {
		s.Namespaces = append(s.Namespaces, settings.NamespaceSeverity{Pattern: n.Namespace, Severity: severities[v1alpha1.Severity(n.Severity)]})
	}
	for _, e := range c.Exemptions {
		s.Exemptions = append(s.Exemptions, settings.Exemption{
			Name: e.Name, Images: e.Images, Namespaces: e.Namespaces, MirrorSets: e.MirrorSets,
			Users: e.Users, Groups: e.Groups, Protected: e.Protected,
		})
	}
	return s
}

// WithOwn returns protected namespaces with the guard's own, which comes first if it is not
// among them.
func WithOwn(protected []string) []string {
	if slices.Contains(protected, policy.OwnNamespace) {
		return protected
	}
	return append([]string{policy.OwnNamespace}, protected...)
}

// Rates returns how many requests a second each registry gets at most, by mirrors.OneSpelling; 0 is for no limit.
func (c Configuration) Rates() map[string]float64 {
	rates := maps.Clone(wire.DefaultRates)
	for _, r := range c.Registries {
		if r.RequestsPerSecond != nil {
			rates[mirrors.OneSpelling(r.Host)] = *r.RequestsPerSecond
		}
	}
	return rates
}

// maxTagLifetime is shorter than what digests may have: a tag can be moved.
const maxTagLifetime = 2 * time.Minute

// FactLifetimes returns how long answers of registries count. Misses do not, but for planning:
// they are looked up again wherever a verdict depends on them.
func (c Configuration) FactLifetimes() presence.Lifetimes {
	found := max(time.Duration(c.FactLifetime), time.Nanosecond) // 0 is for the default
	return presence.Lifetimes{PresentDigest: found, PresentTag: min(found, maxTagLifetime), Absent: time.Nanosecond}
}
