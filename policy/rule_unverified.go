package policy

import "fmt"

// Unverified: nobody could tell whether the image stays available, because a
// registry could not be reached, was too slow, or refused to be asked so often.
// That is not good news and not bad news. It denies, as a wrong guess costs a
// cluster, but not where the image is lost today as well, nor where the new route is
// no worse whatever the registries would say. What it says of images that nobody knows of is outOfDate.
func unverified(v *view) (Finding, bool) {
	if v.After.Err != nil || v.After.SourceBlocked() {
		return Finding{}, false
	}
	f := Finding{
		Severity: v.unlessBroken(),
		Reason:   "nobody could tell whether the image stays available",
		Detail:   v.places(),
		Remedy:   v.waysToVerify(),
	}
	switch {
	case v.after == Unsure:
	case v.after.Found() && v.onlySourceHolds() && v.mirrors == Unsure:
		f.Severity = v.fallBack()
		f.Reason = "nobody could tell whether a mirror has the image; the source has it"
	default:
		return Finding{}, false
	}
	return f, true
}

// waysToVerify returns what would let the guard find out. Where a place denies it, no
// second try would.
func (v *view) waysToVerify() []string {
	for _, l := range v.open {
		if v.found[l].Presence == Denied {
			return []string{fmt.Sprintf("let the guard see for itself: add credentials for %s to Secret openshift-config/pull-secret", host(l.Ref))}
		}
	}
	return []string{verifyAgain}
}

const verifyAgain = "make the registry answer, then try again; answers that arrive late are kept for the next try"
