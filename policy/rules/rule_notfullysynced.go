package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// NotFullySynced: after NeverContactSource (or a blocked registry) the mirrors
// are all that is left, and no mirror is verified to hold the image. This covers every image under the
// source, running or only referenced: a workload scaled to zero today pulls tomorrow.
//
// A mirror that holds it does not help if it comes after one that answers with something
// else, and another before that could not be asked.
//
// Missing images and those that could not be verified have different reasons, as messages
// count them separately.
func notFullySynced(a *evidence.Case) (policy.Finding, bool) {
	if !a.After.SourceBlocked() || !a.NewRoute.HasOpenMirror() || a.StopsForSignatures() || a.NewRoute.IsAtMirror() && a.OutcomeAtMirrors != evidence.Unsure {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Severity: a.UnlessBroken(),
		Reason:   "the source may not be contacted, and no mirror " + without(a, true),
		Detail:   a.Places(),
		Copy:     copyToMirror(a),
	}
	if mirrorsDeny(a) != "" {
		f.Reason = "the source may not be contacted, and no mirror lets nodes in"
	}
	if a.OutcomeAtMirrors == evidence.Unsure {
		f.Reason = "the source may not be contacted, and no mirror could be verified to have the image"
		f.Copy, f.Remedy = nil, a.VerifyRemedy()
	}
	return f, true
}
