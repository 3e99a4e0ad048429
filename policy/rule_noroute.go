package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NoRoute: every place on the new route is blocked, so nothing is asked at all.
// The common way there: NeverContactSource on any entry of a source blocks the
// source for tags and for digests, while the mirrors of an ITMS serve tags only
// and those of an IDMS digests only. One kind cuts off the other kind's pulls.
//
// An image that the signature policy of the nodes refuses is as good as that: MCO
// writes allowedRegistries and blockedRegistries of image.config there as well.
func noRoute(v *view) (Finding, bool) {
	if v.After.Refused != "" {
		return Finding{
			Severity: v.unlessBroken(),
			Reason:   "nodes would refuse it whoever serves it: " + v.After.Refused,
			Remedy:   []string{"name its registry in allowedRegistries, or take it off blockedRegistries"},
		}, true
	}
	if v.After.Err != nil || len(v.open) > 0 {
		return Finding{}, false
	}
	f := Finding{
		Severity: v.unlessBroken(),
		Reason:   "every place on its new route is blocked",
		Detail:   v.places(),
		Remedy:   []string{"let nodes contact the source, or a mirror of it"},
	}
	if len(v.Never) > 0 && !v.hasMirror() {
		f.Reason = fmt.Sprintf("NeverContactSource blocks pulls by %s too, and they have no mirror there", pullType(v.Image.Ref))
		f.Remedy = []string{fmt.Sprintf("use AllowContactingSource in %s, or give %s mirrors in %s first",
			strings.Join(v.Never, " and "), v.After.Entry, kindFor(v.Image.Ref))}
	}
	return f, true
}

// hasMirror reports whether the new route has mirrors, blocked or not.
func (v *view) hasMirror() bool {
	return slices.ContainsFunc(v.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror })
}

// isDigest reports whether nodes pull ref by digest. A tag beside it is dropped,
// and an "@" stands nowhere else in a reference.
func isDigest(ref string) bool { return strings.Contains(ref, "@") }
