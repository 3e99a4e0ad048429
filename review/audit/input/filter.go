package input

import (
	"slices"
	"strings"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
)

// A Filter selects decisions. The zero value selects all of them.
type Filter struct {
	// Since and Until bound their times; zero for no bound.
	Since, Until time.Time
	// Users, Verdicts, Objects and Rules: one of each list has to match, if the list is not empty.
	// A trailing * matches any ending. Objects are names, KIND/NAME or KIND/NAMESPACE/NAME.
	Users, Verdicts, Objects, Rules []string
	// Overridden asks for those with an override that counted.
	Overridden bool
	// DryRun asks for dry runs only, or for none; nil for both.
	DryRun *bool
}

// Covers reports whether f asks for d.
func (f Filter) Covers(d *auditv1alpha1.Decision) bool {
	return f.CoversTime(d.Time) &&
		(len(f.Users) == 0 || matches(f.Users, d.User.Name)) &&
		(len(f.Verdicts) == 0 || slices.Contains(f.Verdicts, d.Verdict)) &&
		(len(f.Objects) == 0 || matches(f.Objects, d.Object.Name, ObjectName(d.Object))) &&
		(len(f.Rules) == 0 || slices.ContainsFunc(d.Rules, func(r auditv1alpha1.RuleCount) bool { return matches(f.Rules, r.Rule) })) &&
		(!f.Overridden || d.IsOverridden()) &&
		(f.DryRun == nil || *f.DryRun == d.DryRun)
}

// CoversTime reports whether t is within the bounds.
func (f Filter) CoversTime(t time.Time) bool {
	return (f.Since.IsZero() || !t.Before(f.Since)) && (f.Until.IsZero() || t.Before(f.Until))
}

// ObjectName returns KIND/NAME, or KIND/NAMESPACE/NAME.
func ObjectName(o auditv1alpha1.Object) string {
	if o.Namespace != "" {
		return o.Kind + "/" + o.Namespace + "/" + o.Name
	}
	return o.Kind + "/" + o.Name
}

// matches reports whether a pattern matches one of names. Case does not count, as people write
// kinds as they like.
func matches(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		p, open := strings.CutSuffix(strings.ToLower(p), "*")
		return slices.ContainsFunc(names, func(name string) bool {
			name = strings.ToLower(name)
			return name == p || open && strings.HasPrefix(name, p)
		})
	})
}
