package policy

import (
	"cmp"
	"strings"
)

// UnverifiedInFront: a place on the new route has the image, but one that nodes ask before it
// could not be asked. While that one is away, nodes move on and the pull works. If it comes
// back and answers 200 with something else, such as a login page or another image, they stop
// there (newImageSource in containers/image docker/docker_image_src.go). It denies for protected images,
// unless the same places are in front today.
func unverifiedInFront(a *assessment) (Finding, bool) {
	if a.after != WorksBehind || a.onlySourceHolds() { // the latter is for Unverified to say
		return Finding{}, false
	}
	front := a.newRoute.unverifiedFront()
	f := Finding{
		Severity: Warn,
		Reason:   "nodes first ask a place that could not be verified",
		Detail:   a.places(),
		Remedy:   []string{cmp.Or(a.fullName(front[0]), strings.TrimSuffix(a.help(a.found.At(front[0]), front[0].Ref), "; "+late)+", or put it behind the others")},
	}
	if a.protected {
		f.Severity = a.unlessBroken()
	}
	return f, true
}
