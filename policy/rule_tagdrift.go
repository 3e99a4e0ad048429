package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TagDrift: the tag at the mirror is a different image from the one that runs. The pull works,
// but the next pod runs something other than the last one did. The digest that runs is what
// the node reported (status imageID); it may be the digest of an index or of the part of it
// for the node's architecture, so both are compared.
func tagDrift(a *assessment) (Finding, bool) {
	if mirrors.ByDigest(a.Image.Ref) {
		return Finding{}, false
	}
	at, ok := a.newRoute.served()
	fact := at.fact
	running := a.running()
	if !ok || fact.Digest == "" || len(running) == 0 || fact.unread() {
		return Finding{}, false
	}
	for _, digest := range running {
		if digest == fact.Digest || slices.Contains(fact.Children, digest) {
			return Finding{}, false
		}
	}
	return Finding{
		Severity: Warn,
		Reason:   "the tag is a different image there from the one that runs",
		Detail:   []string{fmt.Sprintf("%s: %s; running: %s", at.Ref, text.ShortDigest(fact.Digest), text.ShortDigest(running[0]))},
		Remedy:   a.copyTo(at.Location),
	}, true
}
