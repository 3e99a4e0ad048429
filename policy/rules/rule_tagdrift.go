package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TagDrift: the tag at the mirror is a different image from the one that runs. The pull works,
// but the next pod runs something other than the last one did. The digest that runs is what
// the node reported (status imageID); it may be the digest of an index or of the part of it
// for the node's architecture, so both are compared. A copy helps at a mirror that is not known to have what the source has.
func tagDrift(a *evidence.Case) (policy.Finding, bool) {
	if mirrors.ByDigest(a.Image.Ref) {
		return policy.Finding{}, false
	}
	at, ok := a.NewRoute.ServedFirst()
	if ok && !a.IsAnother(at.Fact) {
		at, ok = a.NewRoute.Served() // by other nodes
	}
	if !ok || !a.IsAnother(at.Fact) {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Severity: policy.Warn,
		Reason:   "the tag names a different image there than the one that runs",
		Detail:   drifts(a, at.Ref, at.Fact),
	}
	if c := copyTo(a, at.Location); c != nil && at.Mirror && c.Digest != at.Fact.Digest {
		c.MovesTag()
		f.Copy = c
	}
	return f, true
}
