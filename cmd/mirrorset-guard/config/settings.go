package config

import (
	"maps"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// What the values of the file's enums are in the packages that go by them.
var (
	modes      = map[v1alpha1.Mode]policy.Mode{"enforce": policy.ModeEnforce, "warn": policy.ModeWarn, "audit": policy.ModeAudit}
	severities = map[v1alpha1.Severity]policy.Severity{"deny": policy.Deny, "warn": policy.Warn, "info": policy.Info}
	guesses    = map[v1alpha1.Guesses]policy.Guesses{"deny": policy.GuessesDeny, "warn": policy.GuessesWarn, "ignore": policy.GuessesIgnore}
	blobScopes = map[v1alpha1.BlobScope]policy.BlobScope{"all": policy.BlobsOfAll, "protected": policy.BlobsOfProtected, "none": policy.BlobsOfNone}
	depths     = map[v1alpha1.Depth]mirrors.Depth{"manifest": mirrors.DepthManifest, "blobs": mirrors.DepthBlobs}
)

// Settings returns what c says about verdicts. c must have been parsed without mistakes.
func (c Configuration) Settings() policy.Settings {
	s := policy.Settings{
		Mode:                modes[c.Mode],
		Protected:           WithOwn(c.ProtectedNamespaces),
		AllowSourceFallback: c.AllowSourceFallback,
		Blobs:               blobScopes[c.VerifyBlobs],
		Guesses:             guesses[c.Guesses],
		Severities:          map[string]policy.Severity{},
		Depths:              map[string]mirrors.Depth{},
	}
	if m := c.MinutesPerNode; m != nil {
		s.Times.Drain = rollout.Range{Min: time.Duration(m.Least) * time.Minute, Max: time.Duration(m.Most) * time.Minute}
	}
	for rule, severity := range c.Severities {
		s.Severities[rule] = severities[severity]
	}
	for _, n := range c.NamespaceSeverities {
		s.Namespaces = append(s.Namespaces, policy.NamespaceSeverity{Pattern: n.Namespace, Severity: severities[v1alpha1.Severity(n.Severity)]})
	}
	for _, e := range c.Exemptions {
		s.Exemptions = append(s.Exemptions, policy.Exemption{
			Name: e.Name, Images: e.Images, Namespaces: e.Namespaces, MirrorSets: e.MirrorSets, MirrorSetLabels: e.MirrorSetLabels,
			Users: e.Users, Groups: e.Groups, Protected: e.Protected,
		})
	}
	for _, r := range c.Registries {
		if r.Depth != "" {
			s.Depths[hostOf(r.Host)] = depths[r.Depth]
		}
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

// apiOf returns the host at which the API of a registry is.
func apiOf(host string) string {
	if host = hostOf(host); host == "docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// Paces returns how fast registries are asked.
func (c Configuration) Paces() registry.Paces {
	p := registry.Paces{Rates: maps.Clone(registry.DefaultRates), AtOnce: map[string]int{}}
	for _, r := range c.Registries {
		if r.RequestsPerSecond != nil {
			p.Rates[apiOf(r.Host)] = *r.RequestsPerSecond
		}
		if r.Concurrency != nil {
			p.AtOnce[apiOf(r.Host)] = *r.Concurrency
		}
	}
	return p
}

// FactLifetimes returns how long answers of registries count. Misses do not, but for planning:
// they are looked up again wherever a verdict depends on them.
func (c Configuration) FactLifetimes() presence.Lifetimes {
	l := c.Lifetimes
	return presence.Lifetimes{
		PresentDigest: time.Duration(l.Found), PresentTag: time.Duration(l.FoundByTag), Absent: time.Nanosecond,
		Recalled: time.Duration(l.Recalled), Trouble: time.Duration(l.Trouble),
	}
}
