package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// TagDrift: the tag at the mirror is a different image from the one that runs. The pull works,
// but the next pod runs something other than the last one did. The digest that runs is what
// the node reported (status imageID); it may be the digest of an index or of the part of it
// for the node's architecture, so both are compared.
func tagDrift(a *assessment) (Finding, bool) {
	if mirrors.ByDigest(a.Image.Ref) {
		return Finding{}, false
	}
	at, ok := a.newRoute.served()
	if !ok || !a.isAnother(at.fact) {
		return Finding{}, false
	}
	c := a.copyTo(at.Location)
	if c != nil {
		c.moves()
	}
	return Finding{
		Severity: Warn,
		Reason:   "the tag names a different image there than the one that runs",
		Detail:   a.drifts(at.Ref, at.fact),
		Copy:     c,
	}, true
}
