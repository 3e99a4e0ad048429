package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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

// BlockedBy returns, sorted, the namespaces whose consumers are the only reason for denials;
// none where a protected namespace, the cluster itself or the configuration as a whole is
// among the reasons. A setting would let such a change pass.
func (s Settings) BlockedBy(findings []Finding) []string {
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

// Denies reports whether a rule about the configuration as a whole, which denies by default,
// does so under these settings.
func (s Settings) Denies(rule string) bool {
	return s.Settle(Finding{Rule: rule, Severity: Deny}, false).Severity == Deny
}

// MerelyGuessed reports whether img has guessed consumers, none of them in a protected
// namespace, and beside those nothing but history. In a protected namespace a guess counts as
// much as any other consumer, as a cluster must not be lost because a kind is unknown here.
// Elsewhere it only warns, as a text that merely looks like an image would block harmless changes.
func (s Settings) MerelyGuessed(img Image) bool {
	guessed := func(c Consumer) bool { return c.Guessed }
	sure := func(c Consumer) bool { return !c.Guessed && c.Use != History }
	return slices.ContainsFunc(img.Consumers, guessed) && !slices.ContainsFunc(img.Consumers, sure) && !s.IsProtected(img)
}

// IsProtectedNamespace reports whether a namespace is protected; that of cluster-scoped objects is.
func (s *Settings) IsProtectedNamespace(name string) bool {
	return name == "" || s.namespaceRank(name) < len(s.protected())
}

// Rank says how important img is: lower comes first. Consumers in protected namespaces count most, in
// the order of the patterns; then running images come before referenced ones, and history and guesses
// come last.
func (s Settings) Rank(img Image) int {
	best := 1 << 20
	for _, c := range img.Consumers {
		best = min(best, s.namespaceRank(c.Namespace)*3+useRank(c))
	}
	return best
}

// IsProtected reports whether a consumer of img lives in a protected namespace. History
// counts only if there is nothing else.
func (s Settings) IsProtected(img Image) bool {
	history := OnlyHistory(img)
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool {
		return (history || c.Use != History) && s.namespaceRank(c.Namespace) < len(s.protected())
	})
}

func (s Settings) protected() []string {
	if s.Protected == nil {
		return DefaultProtected
	}
	return s.Protected
}

// namespaceRank returns the index of the first pattern that matches, or the
// number of patterns. Cluster-scoped consumers match none.
func (s Settings) namespaceRank(namespace string) int {
	patterns := s.protected()
	if namespace == "" {
		return len(patterns)
	}
	for i, p := range patterns {
		if matches(p, namespace) {
			return i
		}
	}
	return len(patterns)
}

// matches reports whether a pattern, which may end in "*", names a namespace.
func matches(pattern, namespace string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == namespace || open && strings.HasPrefix(namespace, prefix)
}

func useRank(c Consumer) int {
	switch {
	case c.Use == History, c.Guessed:
		return 2
	case c.Use == Running:
		return 0
	default:
		return 1
	}
}

// SortConsumers returns img with the consumers that matter most first: those in protected
// namespaces, then what a person deploys before what controllers make of it, then what runs.
func (s Settings) SortConsumers(img Image) Image {
	if len(img.Consumers) < 2 {
		return img
	}
	img.Consumers = slices.Clone(img.Consumers)
	slices.SortStableFunc(img.Consumers, func(a, b Consumer) int {
		return cmp.Or(
			cmp.Compare(s.namespaceRank(a.Namespace), s.namespaceRank(b.Namespace)),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)),
			cmp.Compare(useRank(a), useRank(b)),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Container, b.Container),
		)
	})
	return img
}

// kindRank puts what a person writes before what a controller makes of it.
func kindRank(kind string) int {
	switch kind {
	case "ReplicaSet", "ReplicationController", "Job":
		return 1
	case "Pod":
		return 2
	default:
		return 0
	}
}
