package rules

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// NoRoute: every place on the new route is blocked, so nothing is asked at all. The usual
// cause: NeverContactSource on any entry of a source blocks the source for tags and for
// digests, while the mirrors of an ITMS serve only tags and those of an IDMS only digests. So
// one kind cuts off the other kind's pulls.
//
// An image that the signature policy of the nodes refuses is as good as blocked: MCO writes
// allowedRegistries and blockedRegistries of image.config there as well.
func noRoute(a *evidence.Case) (policy.Finding, bool) {
	if a.After.Refused != "" {
		return policy.Finding{
			Severity: a.UnlessBroken(),
			Reason:   "nodes would refuse it wherever it comes from: " + a.After.Refused,
			Remedy:   []string{refusedRemedy(a.After.Refused)},
		}, true
	}
	if a.After.Err != nil || a.NewRoute.IsOpen() {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Severity: a.UnlessBroken(),
		Reason:   "every place on its new route is blocked",
		Detail:   a.Places(),
		Remedy:   []string{"let nodes contact the source, or a mirror of it"},
	}
	if never := a.Never(); len(never) > 0 && !a.HasMirror() {
		f.Reason = fmt.Sprintf("NeverContactSource blocks pulls by %s too, and they have no mirror there", policy.PullType(a.Image.Ref))
		f.Remedy = []string{"use AllowContactingSource in " + strings.Join(never, " and ")}
		if a.Before.Entry == a.After.Entry && a.Before.SourceBlocked() && len(a.Before.Mirrors()) > 0 { // by an object with NeverContactSource, which that contradicts
			f.Remedy[0] = fmt.Sprintf("keep the mirrors of %s in %s, or %s and there; %s", a.After.Entry, policy.KindFor(a.Image.Ref), f.Remedy[0], byOverride)
		}
	}
	return f, true
}

// refusedRemedy returns what to do about the list that refuses an image. Having both lists is rejected.
func refusedRemedy(why string) string {
	switch why {
	case mirrors.NotAllowed:
		return "add its registry to allowedRegistries"
	case policyfile.NotNamed:
		return "name its registry there"
	default:
		return "remove it from blockedRegistries"
	}
}
