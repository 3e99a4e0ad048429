package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// Results are what would be decided now, as a document.
type Results struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Facts is "now" or "recorded".
	Facts   string   `json:"facts"`
	Changes []Judged `json:"changes"`
	Summary Summary  `json:"summary"`
}

// A Summary counts changes.
type Summary struct {
	Same     int `json:"same"`
	Differ   int `json:"differ"`
	NoAnswer int `json:"noAnswer"`
}

func (r *Results) add(c Judged) {
	r.Changes = append(r.Changes, c)
	switch {
	case c.Error != "":
		r.Summary.NoAnswer++
	case c.Differs:
		r.Summary.Differ++
	default:
		r.Summary.Same++
	}
}

// A Judged is a change with what was decided then, and what would be now.
type Judged struct {
	Time      time.Time    `json:"time"`
	UID       string       `json:"uid"`
	User      string       `json:"user"`
	Operation string       `json:"operation"`
	DryRun    bool         `json:"dryRun"`
	Object    audit.Object `json:"object"`
	// Then and Now are verdicts; Now is "" if there is no answer.
	Then    string `json:"then"`
	Now     string `json:"now"`
	Differs bool   `json:"differs"`
	// Added and Removed are findings by rule and severity that only one of them has, or has more
	// of.
	Added   []audit.RuleCount `json:"added,omitempty"`
	Removed []audit.RuleCount `json:"removed,omitempty"`
	// Message is what refuses the change now, or would without the mode.
	Message string `json:"message,omitempty"`
	// Error is why there is no answer.
	Error string `json:"error,omitempty"`

	rules   []audit.RuleCount
	verdict string // Then, without an override
}

func newJudged(d *audit.Decision) Judged {
	r := Judged{
		Time: d.Time, UID: d.UID, User: d.User.Name, Operation: d.Operation, DryRun: d.DryRun, Object: d.Object,
		Then: d.Verdict, rules: d.Rules, verdict: d.Verdict,
	}
	if d.IsOverridden() {
		r.verdict = cmp.Or(d.Override.Of, "denied")
	}
	return r
}

// compare sets what would be decided now.
func (c *Judged) compare(record review.Record) {
	c.Now = "allowed"
	switch {
	case !record.Verdict.Allowed:
		c.Now, c.Message = "denied", record.Denial()
	case record.Verdict.Waived():
		c.Now, c.Message = "waived", record.Waived()
	}
	var now audit.Decision
	now.Rest(record, 0)
	c.Added, c.Removed = more(now.Rules, c.rules), more(c.rules, now.Rules)
	c.Differs = c.Now != c.verdict
}

// more returns by how much a has more findings of each kind than b.
func more(a, b []audit.RuleCount) []audit.RuleCount {
	var out []audit.RuleCount
	for _, c := range a {
		i := slices.IndexFunc(b, func(o audit.RuleCount) bool { return o.Rule == c.Rule && o.Severity == c.Severity })
		if i >= 0 {
			c.Count -= b[i].Count
		}
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	return out
}
