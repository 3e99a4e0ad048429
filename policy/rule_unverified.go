package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// Unverified: it could not be verified that the image stays available, because a registry
// could not be reached, was too slow, or limits how often it may be asked. It is neither good nor bad
// news, and denies, as a wrong guess costs a cluster, but not where the image is lost today as well,
// nor where the new route is no worse whatever the registries would say. For images that are not known,
// there is InventoryStale.
func unverified(a *assessment) (Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() {
		return Finding{}, false
	}
	f := Finding{}
	switch {
	case a.after == Unsure:
		f.Severity = a.unlessBroken()
		f.Reason = "it could not be verified that the image stays available"
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Unsure:
		f.Severity = a.fallbackSeverity()
		f.Reason = "it could not be verified that a mirror has the image; the source has it"
		f.OnlySource = true
	default:
		return Finding{}, false
	}
	f.Detail, f.Remedy = a.places(), a.verifyRemedy()
	return f, true
}

// tooMuchToJudge is Unverified for a configuration that is too large to be judged, whether it
// was too large before or not. MCO may well apply it. It denies, except for a change that only
// makes it smaller: recovery takes several steps where several objects are too large.
func tooMuchToJudge(p ChangePlan, _ Facts) []Finding {
	switch {
	case p.shrinks:
		return tooMuchFor(p.Rejected, Warn, stillTooMuch, makeSmaller)
	case isTooMuch(p.Rejected):
		return tooMuchInForce(p.Plan, nil)
	case isTooMuch(p.RejectedBefore):
		return tooMuchFor(p.RejectedBefore, Warn, wasTooMuch, "make sure that every image that a removed mirror served can still be pulled")
	default:
		return nil
	}
}

// tooMuchInForce is tooMuchToJudge for a configuration that stays.
func tooMuchInForce(p Plan, _ Facts) []Finding {
	if !isTooMuch(p.Rejected) {
		return nil
	}
	return tooMuchFor(p.Rejected, Deny, tooMuch, makeSmaller)
}

func tooMuchFor(r *mirrors.Rejection, severity Severity, reason, remedy string) []Finding {
	return []Finding{{Severity: severity, Reason: reason, Detail: r.Of(mirrors.TooMuch), Remedy: []string{remedy}}}
}

const (
	tooMuch      = "the merged configuration is too large to be judged"
	wasTooMuch   = "the configuration in force is too large to be judged, and the change is judged as if nothing were configured"
	stillTooMuch = "the merged configuration is too large to be judged, and this change makes it smaller"
	makeSmaller  = "shorten what is named above, or remove it"
)

// unknownCAs is Unverified where it is not known whom nodes trust before or after the change:
// they might stop talking to any registry, or start to.
func unknownCAs(p ChangePlan, _ Facts) []Finding {
	if len(p.UnknownCAs) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Deny, Reason: unknownTrust, Detail: p.UnknownCAs,
		Remedy: []string{"make sure that the guard can read ConfigMaps of openshift-config, then try again"},
	}}
}

const unknownTrust = "the change alters additionalTrustedCA of Image cluster, and it is not known which CAs that means"
