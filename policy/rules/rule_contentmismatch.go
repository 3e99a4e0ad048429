package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// ContentMismatch: a place on the new route answers 200, but not with the image: the digest
// differs, or the answer is not a manifest. containers/image chooses a place by that first
// answer and never goes on to the next one, so the pull fails although a later place may hold
// the image. For a short name the pull goes on with the next search registry, and what nodes
// get there is a different image of the same name.
func contentMismatch(a *evidence.Case) (policy.Finding, bool) {
	ended, severity := a.EndedAt()
	for _, at := range ended {
		if at.Fact.Presence == policy.Mismatch {
			return policy.Finding{
				Severity: severity,
				Reason:   "a place on its new route answers with something else, and nodes would stop there",
				Detail:   a.Places(),
				Remedy:   []string{"remove or repair what " + at.Host() + " serves under " + at.Ref},
			}, true
		}
	}
	return policy.Finding{}, false
}
