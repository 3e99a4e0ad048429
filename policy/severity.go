package policy

// Severity says what a Finding does to the verdict. The zero value is Info.
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

// severity applies the settings to what a rule says. Unseen is set for a finding that
// stands for images that nobody could look at, protected ones among them.
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
	return min(severity, s.most(f.Image))
}

// most returns the most that a finding on img may be. Each consumer is looked at alone: that
// there is another one which holds up nothing makes no difference.
func (s Settings) most(img Image) Severity {
	switch {
	case len(img.Consumers) == 0:
		return Deny
	case s.merelyGuessed(img) && s.Guesses == GuessesIgnore:
		return Info // history beside makes no difference
	}
	most := Info
	for _, u := range img.Consumers {
		most = max(most, s.mostFor(u))
	}
	return most
}

func (s Settings) mostFor(u Consumer) Severity {
	switch {
	case u.Use == History:
		return Warn
	case s.namespaceRank(u.Namespace) < len(s.protected()):
		return Deny
	case u.Guessed && s.Guesses != GuessesDeny:
		return s.Guesses.most()
	case s.mayHoldUp(u.Namespace):
		return Deny
	default:
		return Warn
	}
}

func (s Settings) mayHoldUp(namespace string) bool {
	for _, n := range s.Namespaces {
		if namespace != "" && matches(n.Pattern, namespace) {
			return n.Severity == Deny
		}
	}
	return true
}

// heldUpBy returns the namespaces whose consumers are all that makes findings denials, sorted;
// none where a protected namespace, the cluster itself or the configuration as a whole is
// among the reasons. A setting would let these changes pass.
func (s Settings) heldUpBy(findings []Finding) []string {
	namespaces := map[string]bool{}
	for _, f := range findings {
		if f.Severity != Deny {
			continue
		}
		if f.Image.Ref == "" || s.IsProtected(f.Image) {
			return nil
		}
		for _, u := range f.Image.Consumers {
			switch {
			case s.mostFor(u) < Deny:
			case u.Namespace == "":
				return nil
			default:
				namespaces[u.Namespace] = true
			}
		}
	}
	return sortedKeys(namespaces)
}

// denies reports whether a finding of a rule about the configuration as a whole that denies
// by default still does.
func (s Settings) denies(rule string) bool {
	return s.severity(Finding{Rule: rule, Severity: Deny}, false) == Deny
}
