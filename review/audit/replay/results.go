package replay

import (
	"cmp"
	"slices"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// add adds the result of a change.
func add(r *v1alpha1.Replay, c v1alpha1.ReplayedChange) {
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

// A judged is a change that is being judged again.
type judged struct {
	v1alpha1.ReplayedChange
	rules   []auditv1alpha1.RuleCount
	verdict string // Then, without an override
}

func newJudged(d *auditv1alpha1.Decision) judged {
	r := judged{ReplayedChange: v1alpha1.ReplayedChange{
		Time: d.Time, UID: d.UID, User: d.User.Name, Operation: d.Operation, DryRun: d.DryRun, Object: d.Object,
		Then: d.Verdict,
	}, rules: d.Rules, verdict: d.Verdict}
	if d.IsOverridden() {
		r.verdict = cmp.Or(d.Override.Of, "denied")
	}
	return r
}

// compare sets what would be decided now.
func (c *judged) compare(record review.Record) {
	c.Now = "allowed"
	switch {
	case !record.Verdict.Allowed:
		c.Now, c.Message = "denied", record.Denial()
	case record.Verdict.Waived():
		c.Now, c.Message = "waived", record.Waived()
	}
	var now auditv1alpha1.Decision
	audit.Rest(&now, record, 0)
	c.Added, c.Removed = more(now.Rules, c.rules), more(c.rules, now.Rules)
	c.Differs = c.Now != c.verdict
}

// more returns by how much a has more findings of each kind than b.
func more(a, b []auditv1alpha1.RuleCount) []auditv1alpha1.RuleCount {
	var out []auditv1alpha1.RuleCount
	for _, c := range a {
		i := slices.IndexFunc(b, func(o auditv1alpha1.RuleCount) bool { return o.Rule == c.Rule && o.Severity == c.Severity })
		if i >= 0 {
			c.Count -= b[i].Count
		}
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	return out
}
