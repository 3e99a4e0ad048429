package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// RejectedByMCO: the merged configuration is invalid. MCO validates all mirror
// objects, the image configuration and the image policies together, before it generates
// anything. An error there degrades nothing and shows in no status: it is logged and
// retried for ever, and every later change of any mirror object is silently not
// applied (semantics: "Such an error degrades nothing"). What it generates may be too
// large for it, too: then either that is not applied, or no other MachineConfig of the pool.
//
// Only what the change adds denies: a reason of another kind or about something else, or
// a party to one that is there (mirrors.Rejection.Beyond). A configuration that is invalid
// already is reported, which lets it be mended in steps; what else the change says is judged
// by the other rules, as all of it is applied once the configuration is mended.
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
	added := textsOf(p.Rejected.Beyond(p.RejectedBefore))
	for _, reason := range reasonsOf(p.Rejected) {
		f := rejectedFor(reason, Warn, rejects, mendIt)
		if slices.Contains(added, reason.String()) {
			f = rejectedFor(reason, Deny, wouldReject, mendIt)
		}
		findings = append(findings, f)
	}
	if p.Rejected == nil && len(findings) == 0 {
		for _, reason := range reasonsOf(p.RejectedBefore) {
			findings = append(findings, rejectedFor(reason, Warn, rejected, "expect earlier changes that were held up to roll out together with this one"))
		}
	}
	return findings
}

// rejectedFor words a finding, in terms of size where that is what is wrong.
func rejectedFor(reason mirrors.Reason, severity Severity, text, remedy string) Finding {
	if reason.Kind == mirrors.TooLarge {
		text, remedy = tooLarge[text], makeFit
	}
	return Finding{Rule: "RejectedByMCO", Severity: severity, Reason: text, Detail: []string{reason.String()}, Remedy: []string{remedy}}
}

func unjudged(r *mirrors.Rejection, severity Severity, reason, remedy string) []Finding {
	return []Finding{{Rule: "Unverified", Severity: severity, Reason: reason, Detail: r.Of(mirrors.TooMuch), Remedy: []string{remedy}}}
}

const (
	tooMuch      = "the merged configuration is larger than what can be judged"
	wasTooMuch   = "the configuration in force is larger than what can be judged, and the change is judged as if it were none"
	stillTooMuch = "the merged configuration is larger than what can be judged, and this change makes it smaller"
	makeSmaller  = "shorten what is named above, or take it away"
	wouldReject  = "the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes"
	rejects      = "the Machine Config Operator rejects the configuration already and applies no mirror change until it is mended"
	rejected     = "the Machine Config Operator rejected the configuration in force; this change mends it"
	mendIt       = "correct what is named above, then try again"
	makeFit      = "cover many sources with one that is wider, or take away what is not used"
)

// tooLarge has the same for a configuration that does not fit.
var tooLarge = map[string]string{
	wouldReject: "the merged configuration would be too large for a MachineConfig, and pools would get no change of any kind any more",
	rejects:     "the configuration is too large for a MachineConfig already, and this change does not make it larger",
	rejected:    "the configuration in force was too large for a MachineConfig; this change mends it",
}

func reasonsOf(r *mirrors.Rejection) []mirrors.Reason {
	if r == nil {
		return nil
	}
	return r.Reasons
}

func textsOf(reasons []mirrors.Reason) []string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.String()
	}
	return texts
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
