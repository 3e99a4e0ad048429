package policy

import (
	"maps"
	"slices"
)

// Severity is the effect of a Finding on the verdict. The zero value is Info.
type Severity int

const (
	// Info is reported on request only.
	Info Severity = iota
	// Warn is reported with an admission.
	Warn
	// Deny refuses the change.
	Deny
)

// String implements fmt.Stringer.
func (s Severity) String() string {
	return [...]string{"info", "warn", "deny"}[s]
}

// severity applies the settings to the severity of a finding. unseen is set for one that stands
// for unknown images, which may be protected.
func (s Settings) severity(f Finding, unseen bool) Severity {
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
	if f.Rule == RescueMissing {
		return severity // though only history names the image
	}
	return min(severity, s.maxSeverity(f.Image))
}

// maxSeverity returns the greatest severity that a finding on img may have. Each consumer is
// considered separately: it makes no difference that another one would not block the change.
func (s Settings) maxSeverity(img Image) Severity {
	if len(img.Consumers) == 0 {
		return Deny
	}
	most := Info
	for _, c := range img.Consumers {
		most = max(most, s.maxSeverityFor(c))
	}
	return most
}

func (s Settings) maxSeverityFor(c Consumer) Severity {
	switch {
	case c.Use == History:
		return Warn
	case s.namespaceRank(c.Namespace) < len(s.protected()):
		return Deny
	case !c.Guessed && s.mayBlock(c.Namespace):
		return Deny
	default:
		return Warn
	}
}

func (s Settings) mayBlock(namespace string) bool {
	for _, n := range s.Namespaces {
		if namespace != "" && matches(n.Pattern, namespace) {
			return n.Severity == Deny
		}
	}
	return true
}

// blockedBy returns, sorted, the namespaces whose consumers are the only reason for denials;
// none where a protected namespace, the cluster itself or the configuration as a whole is
// among the reasons. A setting would let such a change pass.
func (s Settings) blockedBy(findings []Finding) []string {
	namespaces := map[string]bool{}
	for _, f := range findings {
		if f.Severity != Deny {
			continue
		}
		if f.Image.Ref == "" || f.Rule == RolloutStalls || s.IsProtected(f.Image) {
			return nil
		}
		for _, c := range f.Image.Consumers {
			switch {
			case s.maxSeverityFor(c) < Deny, s.exemptionFor(f.Image.Ref, c) != "":
			case c.Namespace == "":
				return nil
			default:
				namespaces[c.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

// denies reports whether a rule about the configuration as a whole, which denies by default,
// does so under these settings.
func (s Settings) denies(rule string) bool {
	return s.settle(Finding{Rule: rule, Severity: Deny}, false).Severity == Deny
}
