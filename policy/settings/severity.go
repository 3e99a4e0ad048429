package settings

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Settle returns f with the severity that the settings give it. Unseen is set for a finding
// that stands for unknown images, which may be protected.
func (s Settings) Settle(f policy.Finding, unseen bool) policy.Finding {
	f.Severity = s.severity(f, unseen)
	if f.Severity != policy.Deny {
		return f
	}
	if names := s.exemptionsOf(f.Image, unseen); len(names) > 0 {
		f.Severity, f.Exemptions = policy.Warn, names
	}
	return f
}

// severity applies the settings to the severity of a finding. unseen is set for one that stands
// for unknown images, which may be protected.
func (s Settings) severity(f policy.Finding, unseen bool) policy.Severity {
	severity := f.Severity
	protected := unseen || s.IsProtected(f.Image)
	set, ok := s.Severities[f.Rule+"@protected"]
	if ok = ok && protected; !ok {
		set, ok = s.Severities[f.Rule]
		ok = ok && (!protected || set >= severity)
	}
	if ok {
		severity = set
	}
	if f.Rule == policy.RescueMissing {
		return severity // though only history names the image
	}
	return min(severity, s.maxSeverity(f.Image))
}

// maxSeverity returns the greatest severity that a finding on img may have. Each consumer is
// considered separately: it makes no difference that another one would not block the change.
func (s Settings) maxSeverity(img policy.Image) policy.Severity {
	if len(img.Consumers) == 0 {
		return policy.Deny
	}
	most := policy.Info
	for _, c := range img.Consumers {
		most = max(most, s.maxSeverityFor(c))
	}
	return most
}

func (s Settings) maxSeverityFor(c policy.Consumer) policy.Severity {
	switch {
	case c.Use == policy.History:
		return policy.Warn
	case s.namespaceRank(c.Namespace) < len(s.protected()):
		return policy.Deny
	case !c.Guessed && s.mayBlock(c.Namespace):
		return policy.Deny
	default:
		return policy.Warn
	}
}

func (s Settings) mayBlock(namespace string) bool {
	for _, n := range s.Namespaces {
		if namespace != "" && policy.MatchesName(n.Pattern, namespace) {
			return n.Severity == policy.Deny
		}
	}
	return true
}

// Denies reports whether a rule about the configuration as a whole, which denies by default,
// does so under these settings.
func (s Settings) Denies(rule string) bool {
	return s.Settle(policy.Finding{Rule: rule, Severity: policy.Deny}, false).Severity == policy.Deny
}

// MerelyGuessed reports whether img has guessed consumers, none of them in a protected
// namespace, and beside those nothing but history. In a protected namespace a guess counts as
// much as any other consumer, as a cluster must not be lost because a kind is unknown here.
// Elsewhere it only warns, as a text that merely looks like an image would block harmless changes.
func (s Settings) MerelyGuessed(img policy.Image) bool {
	guessed := func(c policy.Consumer) bool { return c.Guessed }
	sure := func(c policy.Consumer) bool { return !c.Guessed && c.Use != policy.History }
	return slices.ContainsFunc(img.Consumers, guessed) && !slices.ContainsFunc(img.Consumers, sure) && !s.IsProtected(img)
}

// BlockedBy returns, sorted, the namespaces whose consumers are the only reason for denials;
// none where a protected namespace, the cluster itself or the configuration as a whole is
// among the reasons. A setting would let such a change pass.
func (s Settings) BlockedBy(findings []policy.Finding) []string {
	namespaces := map[string]bool{}
	for _, f := range findings {
		if f.Severity != policy.Deny {
			continue
		}
		if f.Image.Ref == "" || f.Rule == policy.RolloutStalls || s.IsProtected(f.Image) {
			return nil
		}
		for _, c := range f.Image.Consumers {
			switch {
			case s.maxSeverityFor(c) < policy.Deny, s.exemptionFor(f.Image.Ref, c) != "":
			case c.Namespace == "":
				return nil
			default:
				namespaces[c.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

// exemptionsOf returns, in the order of the settings, the names of the exemptions that cover a denial about img, or about the
// cluster if its reference is "" or if it stands for others; nil if they do not cover it.
func (s Settings) exemptionsOf(img policy.Image, unseen bool) []string {
	if img.Ref == "" || unseen {
		return named(s.exemption(func(e Exemption) bool { return e.Protected && len(e.Images)+len(e.Namespaces) == 0 }))
	}
	if len(img.Consumers) == 0 {
		return named(s.exemptionFor(img.Ref, policy.Consumer{}))
	}
	needed := map[string]bool{}
	for _, c := range img.Consumers {
		if s.maxSeverityFor(c) < policy.Deny {
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
func (s Settings) exemptionFor(ref string, c policy.Consumer) string {
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
