package policy

import (
	"fmt"
	"strings"
)

// NoRoute: every place on the new route is blocked, so nothing is asked at all. The usual
// cause: NeverContactSource on any entry of a source blocks the source for tags and for
// digests, while the mirrors of an ITMS serve only tags and those of an IDMS only digests. So
// one kind cuts off the other kind's pulls.
//
// An image that the signature policy of the nodes refuses is as good as blocked: MCO writes
// allowedRegistries and blockedRegistries of image.config there as well.
func noRoute(a *assessment) (Finding, bool) {
	if a.After.Refused != "" {
		return Finding{
			Severity: a.unlessBroken(),
			Reason:   "nodes would refuse it wherever it comes from: " + a.After.Refused,
			Remedy:   []string{"add its registry to allowedRegistries, or remove it from blockedRegistries"},
		}, true
	}
	if a.After.Err != nil || a.newRoute.isOpen() {
		return Finding{}, false
	}
	f := Finding{
		Severity: a.unlessBroken(),
		Reason:   "every place on its new route is blocked",
		Detail:   a.places(),
		Remedy:   []string{"let nodes contact the source, or a mirror of it"},
	}
	if never := a.never(); len(never) > 0 && !a.hasMirror() {
		f.Reason = fmt.Sprintf("NeverContactSource blocks pulls by %s too, and they have no mirror there", pullType(a.Image.Ref))
		f.Remedy = []string{fmt.Sprintf("use AllowContactingSource in %s, or give %s mirrors in %s first",
			strings.Join(never, " and "), a.After.Entry, kindFor(a.Image.Ref))}
	}
	return f, true
}
