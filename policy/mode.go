package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

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

// Waived reports whether v admits a change that mode enforce would refuse.
func (v Verdict) Waived() bool { return v.Allowed && len(v.withSeverity(Deny)) > 0 }

// WaivedMessage says why mode enforce would refuse subject, in the words of Message; "" if it
// would not.
func (v Verdict) WaivedMessage(subject string) string {
	if !v.Waived() {
		return ""
	}
	var b strings.Builder
	v.writeDenial(&b, text.Line(subject), maxDetailed)
	return b.String()
}

// waivedWarnings say what mode enforce would have denied, in the words of a denial.
func (v Verdict) waivedWarnings(subject string) []string {
	denials := v.withSeverity(Deny)
	why := v.lost(denials)
	if whole := ofConfiguration(denials); len(whole) == len(denials) {
		why = whole[0].Reason
	}
	warnings := []string{cut(fmt.Sprintf("Mode %s: in mode enforce %s would be refused: %s", v.Mode, subject, why))}
	for _, g := range groupByRule(denials) {
		warnings = append(warnings, cut("Would be denied: "+warning(g)))
	}
	return warnings
}

// answer says whether v refuses a change, after its subject.
func (v Verdict) answer() string {
	if v.Standing {
		return "has faults"
	}
	if v.Allowed {
		return fmt.Sprintf("is admitted in mode %s, and would be refused in mode enforce", v.Mode)
	}
	return "is refused"
}

// Exemptions returns, each once, the names of the exemptions that made warnings of denials.
func (v Verdict) Exemptions() []string {
	var names []string
	for _, f := range v.Findings {
		for _, name := range f.Exemptions {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// exemptionWarnings name each exemption with every finding that it changed, counted by rule.
func (v Verdict) exemptionWarnings() []string {
	var warnings []string
	for _, name := range v.Exemptions() {
		for _, g := range groupByRule(v.exemptBy(name)) {
			warnings = append(warnings, cut(fmt.Sprintf("Exemption %s admits what would be denied: %s", name, warning(g))))
		}
	}
	return warnings
}

// notExempt returns the findings of one severity that no exemption changed.
func (v Verdict) notExempt(s Severity) []Finding {
	return only(v.Findings, func(f *Finding) bool { return f.Severity == s && len(f.Exemptions) == 0 })
}

// exemptBy returns the findings that the exemption of this name changed.
func (v Verdict) exemptBy(name string) []Finding {
	return only(v.Findings, func(f *Finding) bool { return slices.Contains(f.Exemptions, name) })
}

// exemptLine is the line about the exemptions of f; "" if there are none.
func exemptLine(f Finding) string {
	switch len(f.Exemptions) {
	case 0:
		return ""
	case 1:
		return "no denial because of the exemption " + text.Line(f.Exemptions[0])
	default:
		return "no denial because of the exemptions " + text.Names(f.Exemptions, maxConsumers)
	}
}
