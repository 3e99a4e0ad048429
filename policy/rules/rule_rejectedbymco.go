package rules

import (
	"cmp"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// RejectedByMCO: the merged configuration is invalid. MCO validates all mirror
// objects, the image configuration and the image policies together, before it generates
// anything. An error there degrades nothing and shows in no status: it is logged and
// retried forever, and every later change of any mirror object is silently not
// applied (syncImageConfig in MCO's container-runtime-config controller). The result may also be too large
// for it: then either the result is not applied, or no other MachineConfig of the pool is.
//
// Only what the change adds denies: a reason of another kind or about something else, or
// a party to one that is there (mirrors.Rejection.Beyond). A configuration that is invalid already is
// reported, which lets it be repaired in steps; the other rules judge the rest of the change, as all of
// it is applied once the configuration is repaired.
//
// A setting may turn the denial into a warning. Even then no route changes; but the change is
// judged as if MCO applied it, as the reason for the setting may be that MCO is known to
// accept it.
//
// A configuration that is too large to be judged is not necessarily rejected by MCO: see
// tooMuchToJudge.
func rejectedByMCO(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	if plan.IsTooMuch(p.Rejected) {
		return nil
	}
	var findings []policy.Finding
	added := convert.Each(p.Rejected.Beyond(p.RejectedBefore), mirrors.Reason.String)
	for _, reason := range reasonsOf(p.Rejected) {
		if slices.Contains(added, reason.String()) {
			findings = append(findings, newlyRejected(p, reason))
			continue
		}
		findings = append(findings, rejectedFor(reason, policy.Warn, rejects, repairIt))
	}
	if p.Rejected == nil && !plan.IsTooMuch(p.RejectedBefore) {
		for _, reason := range reasonsOf(p.RejectedBefore) {
			findings = append(findings, repaired(p, reason))
		}
	}
	return findings
}

// rejectedInForce is RejectedByMCO for the configuration in force.
func rejectedInForce(p plan.Plan, _ policy.Facts) []policy.Finding {
	if plan.IsTooMuch(p.Rejected) {
		return nil
	}
	return convert.Each(reasonsOf(p.Rejected), func(r mirrors.Reason) policy.Finding { return rejectedFor(r, policy.Warn, rejects, repairIt) })
}

// newlyRejected returns the finding for a reason that the change adds.
func newlyRejected(p plan.ChangePlan, reason mirrors.Reason) policy.Finding {
	f := rejectedFor(reason, policy.Deny, wouldReject, repairIt)
	if reason.Kind == mirrors.PolicyConflict {
		f.Remedy = []string{repairIt + otherPolicy(p, reason.Scope)}
	}
	if p.Settings.Denies(policy.RejectedByMCO) {
		return f
	}
	if reason.Kind != mirrors.TooLarge {
		f.Reason = rejectedBySetting
	}
	judged := "images are judged as if it were applied"
	if p.Unjudged {
		judged = "which images it would reroute then is not known"
	}
	f.Detail = append(f.Detail, judged)
	return f
}

// otherPolicy says how a source gets another policy, by objects that are applied one after another. None of them may contradict
// those that are in force when it comes; nodes get one that does together with the end of the contradiction.
func otherPolicy(p plan.ChangePlan, source string) string {
	wants := map[configv1.MirrorSourcePolicy]bool{}
	for _, e := range p.Added {
		if e.Source == source {
			wants[cmp.Or(e.Policy, configv1.AllowContactingSource)] = true
		}
	}
	if len(wants) != 1 {
		return "" // the change contradicts itself
	}
	now, then := configv1.AllowContactingSource, configv1.NeverContactSource
	if wants[now] {
		now, then = then, now
	}
	tags := map[bool]bool{} // whether entries are for tags
	for _, e := range p.Change.After.Entries() {
		if e.Source == source {
			tags[mirrors.KindOf(e.Object) == mirrors.TagMirrorSetGVK.Kind] = true
		}
	}
	replace := fmt.Sprintf("; to replace the other, apply this with %s, take %s out of the other, then say %s", now, source, then)
	if len(tags) > 1 { // the other has mirrors that this one does not replace
		replace = ""
	}
	return replace + "; to change both, " + byOverride
}

// repaired returns the finding for a reason that the change removes. Where it is not known
// what nodes have in the meantime, it says why the change reroutes so much.
func repaired(p plan.ChangePlan, reason mirrors.Reason) policy.Finding {
	f := rejectedFor(reason, policy.Warn, rejected, "expect earlier changes that were not applied to roll out together with this one")
	if p.BeforeUnknown && f.Reason == rejected {
		f.Reason = rejectedUnknown
		f.Detail = append(f.Detail, "MachineConfig "+mirrors.GeneratedRegistries+", which says what nodes have, was not read")
		f.Remedy = append(f.Remedy, policy.ReadMachineConfigs)
	}
	return f
}

// rejectedFor returns a finding for reason, worded in terms of size where that is the problem.
func rejectedFor(reason mirrors.Reason, severity policy.Severity, text, remedy string) policy.Finding {
	if reason.Kind == mirrors.TooLarge {
		text, remedy = tooLarge[text], makeFit
	}
	return policy.Finding{Severity: severity, Statement: &policy.Statement{Scope: reason.Scope, Objects: reason.Offenders}, Reason: text, Detail: []string{reason.String()}, Remedy: []string{remedy}}
}

const (
	wouldReject = "the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes"
	rejects     = "the Machine Config Operator already rejects the configuration and applies no mirror change until that is repaired"
	rejected    = "the Machine Config Operator rejected the configuration in force; this change repairs it"

	rejectedBySetting = "the Machine Config Operator would reject the merged configuration: no route changes until it is repaired"
	rejectedUnknown   = "the configuration in force was rejected and what nodes have is not known, so all of the new one is verified"

	repairIt   = "correct what is named above, then try again"
	byOverride = "no order of single changes works: apply one with the override, and the other after it"
	makeFit    = "replace many sources with one that is wider, or remove what is not used"
)

// tooLarge has the counterparts of these texts for a configuration that does not fit.
var tooLarge = map[string]string{
	wouldReject: "the merged configuration would be too large for a MachineConfig, and pools would no longer get changes of any kind",
	rejects:     "the configuration is already too large for a MachineConfig, and this change does not make it larger",
	rejected:    "the configuration in force was too large for a MachineConfig; this change repairs it",
}

func reasonsOf(r *mirrors.Rejection) []mirrors.Reason {
	if r == nil {
		return nil
	}
	return r.Reasons
}
