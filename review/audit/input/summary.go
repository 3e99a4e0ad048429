package input

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// A Summary sums decisions up.
type Summary struct {
	// Decisions is how many there are, First and Last are their times; null if there is none.
	Decisions int        `json:"decisions"`
	First     *time.Time `json:"first"`
	Last      *time.Time `json:"last"`
	// Verdicts, Users, Objects and Rules count the decisions with each, the most frequent first.
	Verdicts []Count `json:"verdicts"`
	Users    []Count `json:"users"`
	Objects  []Count `json:"objects"`
	// Rules counts those that objected, whatever the severity.
	Rules []Count `json:"rules"`
	// Overridden is how many were admitted by an override, DryRuns how many were dry runs.
	Overridden int `json:"overridden"`
	DryRuns    int `json:"dryRuns"`
	// Confirmed is how many overrides are known to be in force, Unconfirmed how many never came.
	Confirmed   int `json:"confirmed"`
	Unconfirmed int `json:"unconfirmed"`
	// Lost is how many records are known to be lost.
	Lost int `json:"lost"`
}

// A Count is the number of decisions that have something. The name is "" for those that found no room of
// their own in a Summary.
type Count struct {
	Name      string `json:"name"`
	Decisions int    `json:"decisions"`
}

// A Summer makes a Summary. The zero value is ready for use.
type Summer struct {
	summary                         Summary
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

func (c counter) sorted() []Count {
	counts := []Count{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		counts = append(counts, Count{Name: name, Decisions: c[name]})
	}
	slices.SortStableFunc(counts, func(a, b Count) int { return cmp.Compare(b.Decisions, a.Decisions) })
	return counts
}

// Add adds a decision.
func (s *Summer) Add(d *audit.Decision) {
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
func (s *Summer) AddConfirmation(c *audit.Confirmation) {
	if c.Confirmed {
		s.summary.Confirmed++
	} else {
		s.summary.Unconfirmed++
	}
}

// AddLoss adds records that were lost.
func (s *Summer) AddLoss(l *audit.Loss) { s.summary.Lost += l.Lost }

// Summary returns the sum of what was added.
func (s *Summer) Summary() Summary {
	sum := s.summary
	sum.Verdicts, sum.Users, sum.Objects, sum.Rules = s.verdicts.sorted(), s.users.sorted(), s.objects.sorted(), s.rules.sorted()
	return sum
}
