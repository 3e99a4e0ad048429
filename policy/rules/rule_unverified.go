package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// Unverified: it could not be verified that the image stays available, because a registry
// could not be reached, was too slow, or limits how often it may be asked. It is neither good nor bad
// news, and denies, as a wrong guess costs a cluster, but not where the image is lost today as well,
// nor where the new route is no worse whatever the registries would say. For images that are not known,
// there is InventoryStale.
func unverified(a *evidence.Case) (policy.Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() {
		return policy.Finding{}, false
	}
	f := policy.Finding{}
	switch {
	case a.OutcomeAfter == evidence.Unsure:
		f.Severity = a.UnlessBroken()
		f.Reason = "it could not be verified that the image stays available"
	case a.OutcomeAfter.Found() && a.OnlySourceHolds() && a.OutcomeAtMirrors == evidence.Unsure:
		f.Severity = a.FallbackSeverity()
		f.Reason = "it could not be verified that a mirror has the image; the source has it"
		f.OnlySource = true
	default:
		return policy.Finding{}, false
	}
	f.Detail, f.Remedy = a.Places(), a.VerifyRemedy()
	return f, true
}

// tooMuchToJudge is Unverified for a configuration that is too large to be judged, whether it
// was too large before or not. MCO may well apply it. It denies, except for a change that only
// makes it smaller: recovery takes several steps where several objects are too large.
func tooMuchToJudge(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	switch {
	case p.Shrinks:
		return tooMuchFor(p.Rejected, policy.Warn, stillTooMuch, makeSmaller)
	case plan.IsTooMuch(p.Rejected):
		return tooMuchInForce(p.Plan, nil)
	case plan.IsTooMuch(p.RejectedBefore):
		return tooMuchFor(p.RejectedBefore, policy.Warn, wasTooMuch, "make sure that every image that a removed mirror served can still be pulled")
	default:
		return nil
	}
}

// tooMuchInForce is tooMuchToJudge for a configuration that stays.
func tooMuchInForce(p plan.Plan, _ policy.Facts) []policy.Finding {
	if !plan.IsTooMuch(p.Rejected) {
		return nil
	}
	return tooMuchFor(p.Rejected, policy.Deny, tooMuch, makeSmaller)
}

func tooMuchFor(r *mirrors.Rejection, severity policy.Severity, reason, remedy string) []policy.Finding {
	return []policy.Finding{{Severity: severity, Reason: reason, Detail: r.Of(mirrors.TooMuch), Remedy: []string{remedy}}}
}

const (
	tooMuch      = "the merged configuration is too large to be judged"
	wasTooMuch   = "the configuration in force is too large to be judged, and the change is judged as if nothing were configured"
	stillTooMuch = "the merged configuration is too large to be judged, and this change makes it smaller"
	makeSmaller  = "shorten what is named above, or remove it"
)

// unknownCAs is Unverified where it is not known whom nodes trust before or after the change:
// they might stop talking to any registry, or start to.
func unknownCAs(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	if len(p.UnknownCAs) == 0 {
		return nil
	}
	return []policy.Finding{{
		Severity: policy.Deny, Reason: unknownTrust, Detail: p.UnknownCAs,
		Remedy: []string{"make sure that the guard can read ConfigMaps of openshift-config, then try again"},
	}}
}

const unknownTrust = "the change alters additionalTrustedCA of Image cluster, and it is not known which CAs that means"
