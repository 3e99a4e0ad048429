package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// RejectedByMCO: the merged configuration is invalid. MCO validates all mirror
// objects and the image configuration together, before it generates anything.
// An error there degrades nothing and shows in no status: it is logged and
// retried for ever, and every later change of any mirror object is silently not
// applied (semantics: "Such an error degrades nothing").
//
// Only what the change adds denies. A configuration that is invalid already is
// reported, so that it can be mended in steps; what else the change says is judged by
// the other rules, as all of it is applied once the configuration is mended.
//
// A configuration that is too large to be judged is none that MCO rejects. It is refused
// as Unverified, whether it was too large before or not, but for a change that does
// nothing but make it smaller: the way back takes more than one step where more than one
// object is too large.
func (p Plan) rejectedByMCO() []Finding {
	if p.shrinks {
		return unjudged(p.Rejected, Warn, stillTooMuch, makeSmaller)
	}
	if p.Rejected != nil && p.Rejected.TooMuch {
		return unjudged(p.Rejected, Deny, tooMuch, makeSmaller)
	}
	var findings []Finding
	if p.RejectedBefore != nil && p.RejectedBefore.TooMuch {
		findings = unjudged(p.RejectedBefore, Warn, wasTooMuch, "see that every image can be pulled that a removed mirror served")
	}
	for _, reason := range reasonsOf(p.Rejected) {
		f := Finding{
			Rule: "RejectedByMCO", Severity: Deny, Reason: wouldReject, Detail: []string{reason},
			Remedy: []string{"correct what is named above, then try again"},
		}
		if slices.Contains(reasonsOf(p.RejectedBefore), reason) {
			f.Severity, f.Reason = Warn, rejects
		}
		findings = append(findings, f)
	}
	if p.Rejected == nil && len(findings) == 0 {
		for _, reason := range reasonsOf(p.RejectedBefore) {
			findings = append(findings, Finding{
				Rule: "RejectedByMCO", Severity: Warn, Reason: rejected, Detail: []string{reason},
				Remedy: []string{"expect earlier changes that were held up to roll out together with this one"},
			})
		}
	}
	return findings
}

func unjudged(r *mirrors.Rejection, severity Severity, reason, remedy string) []Finding {
	return []Finding{{Rule: "Unverified", Severity: severity, Reason: reason, Detail: r.Reasons, Remedy: []string{remedy}}}
}

const (
	tooMuch      = "the merged configuration is larger than what can be judged"
	wasTooMuch   = "the configuration in force is larger than what can be judged, and the change is judged as if it were none"
	stillTooMuch = "the merged configuration is larger than what can be judged, and this change makes it smaller"
	makeSmaller  = "shorten what is named above, or take it away"
	wouldReject  = "the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes"
	rejects      = "the Machine Config Operator rejects the configuration already and applies no mirror change until it is mended"
	rejected     = "the Machine Config Operator rejected the configuration in force; this change mends it"
)

func reasonsOf(r *mirrors.Rejection) []string {
	if r == nil {
		return nil
	}
	return r.Reasons
}

// malformedReferences reports what no node could pull whatever the mirrors are.
// It is no rule: no change of the mirror configuration can make it worse.
func (p Plan) malformedReferences() []Finding {
	var findings []Finding
	for _, img := range p.Malformed {
		findings = append(findings, Finding{
			Rule: "MalformedReference", Severity: Warn, Image: img,
			Reason: "no node can parse the reference", Remedy: []string{"correct the reference where it is used"},
		})
	}
	return findings
}
