package rules

import (
	"cmp"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// UnverifiedInFront: a place on the new route has the image, but one that nodes ask before it
// could not be asked. While that one is away, nodes move on and the pull works. If it comes
// back and answers 200 with something else, such as a login page or another image, they stop
// there (newImageSource in containers/image docker/docker_image_src.go). It denies for protected images,
// unless the same places are in front today.
func unverifiedInFront(a *evidence.Case) (policy.Finding, bool) {
	if a.OutcomeAfter != evidence.WorksBehind || a.OnlySourceHolds() { // the latter is for Unverified to say
		return policy.Finding{}, false
	}
	front := a.NewRoute.UnverifiedFront()
	f := policy.Finding{
		Severity: policy.Warn,
		Reason:   "nodes first ask a place that could not be verified",
		Detail:   a.Places(),
		Remedy:   []string{cmp.Or(a.FullName(front[0]), strings.TrimSuffix(a.Help(a.Found.At(front[0]), front[0].Ref), "; "+evidence.Late)+", or put it behind the others")},
	}
	if a.Protected {
		f.Severity = a.UnlessBroken()
	}
	return f, true
}
