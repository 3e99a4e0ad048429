package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// UnverifiedInFront: a place on the new route has the image, and one that nodes ask before
// it could not be asked. While that one is away, nodes move on and the pull works. When it
// is back and answers 200 with something else, such as a login page or another image, they
// stop there (semantics §2: after a 200 there is no way back). It denies protected images
// that have nothing but mirrors left, unless each such place is in front today too.
func unverifiedInFront(v *view) (Finding, bool) {
	if v.after != WorksBehind || v.onlySourceHolds() { // the latter is for Unverified to say
		return Finding{}, false
	}
	front := unverifiedFront(v.After, v.facts)
	f := Finding{
		Severity: Warn,
		Reason:   "nodes first ask a place that could not be verified",
		Detail:   v.places(),
		Remedy:   []string{fmt.Sprintf("make %s answer, then try again, or put it behind the others", host(front[0].Ref))},
	}
	if v.settings.IsProtected(v.Image) && v.After.SourceBlocked() && !v.inFrontToday(front) {
		f.Severity = v.unlessBroken()
	}
	return f, true
}

// inFrontToday reports whether nodes ask each of front on the old route too, before any
// place that is known to have the image.
func (v *view) inFrontToday(front []mirrors.Location) bool {
	today := unverifiedFront(v.Before, v.facts)
	return !slices.ContainsFunc(front, func(l mirrors.Location) bool { return !slices.Contains(today, l) })
}
