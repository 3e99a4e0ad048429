package input

import (
	"cmp"
	"maps"
	"slices"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
)

// A Summer makes an AuditSummary. The zero value is ready for use.
type Summer struct {
	summary                         v1alpha1.AuditSummary
	verdicts, users, objects, rules counter
}

// maxCounted bounds the names of one kind that are counted one by one.
const maxCounted = 10_000

// A counter counts by name.
type counter map[string]int

func (c *counter) add(name string) {
	if *c == nil {
		*c = counter{}
	}
	if _, known := (*c)[name]; !known && len(*c) >= maxCounted {
		name = ""
	}
	(*c)[name]++
}

func (c counter) sorted() []v1alpha1.AuditCount {
	counts := []v1alpha1.AuditCount{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		counts = append(counts, v1alpha1.AuditCount{Name: name, Decisions: c[name]})
	}
	slices.SortStableFunc(counts, func(a, b v1alpha1.AuditCount) int { return cmp.Compare(b.Decisions, a.Decisions) })
	return counts
}

// Add adds a decision.
func (s *Summer) Add(d *auditv1alpha1.Decision) {
	s.summary.Decisions++
	s.addTime(d.Time)
	s.verdicts.add(d.Verdict)
	s.users.add(d.User.Name)
	s.objects.add(ObjectName(d.Object))
	var rules []string
	for _, r := range d.Rules {
		if !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
			s.rules.add(r.Rule)
		}
	}
	if d.IsOverridden() {
		s.summary.Overridden++
	}
	if d.DryRun {
		s.summary.DryRuns++
	}
}

func (s *Summer) addTime(t time.Time) {
	if s.summary.First == nil || t.Before(*s.summary.First) {
		s.summary.First = &t
	}
	if s.summary.Last == nil || t.After(*s.summary.Last) {
		s.summary.Last = &t
	}
}

// AddConfirmation adds what became of an override.
func (s *Summer) AddConfirmation(c *auditv1alpha1.Confirmation) {
	if c.Confirmed {
		s.summary.Confirmed++
	} else {
		s.summary.Unconfirmed++
	}
}

// AddLoss adds records that were lost.
func (s *Summer) AddLoss(l *auditv1alpha1.Loss) { s.summary.Lost += l.Lost }

// Summary returns the sum of what was added.
func (s *Summer) Summary() v1alpha1.AuditSummary {
	sum := s.summary
	sum.APIVersion, sum.Kind = v1alpha1.APIVersion, "AuditSummary"
	sum.Verdicts, sum.Users, sum.Objects, sum.Rules = s.verdicts.sorted(), s.users.sorted(), s.objects.sorted(), s.rules.sorted()
	return sum
}
