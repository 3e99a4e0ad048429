package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// ImageMissing: no mirror on the new route holds the image, or, where the new
// route has no mirrors, the source does not. With AllowContactingSource a node would still
// fall back to the source; but then the mirror set does not keep its promise, and the pull
// fails on the day the source is out of reach, which is what mirrors are for. So that denies
// as well, with a different reason, unless the settings allow the fallback for a time or the
// old route was in the same state.
func imageMissing(a *evidence.Case) (policy.Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() || !a.AbsentSomewhere() || a.StopsForSignatures() {
		return policy.Finding{}, false
	}
	switch {
	case a.OutcomeAfter == evidence.Fails:
		return policy.Finding{
			Severity: a.UnlessBroken(),
			Reason:   "no place on its new route " + without(a, false),
			Detail:   a.Places(),
			Copy:     copyToMirror(a),
		}, true
	case a.OutcomeAfter.Found() && a.OnlySourceHolds() && a.OutcomeAtMirrors == evidence.Fails:
		return policy.Finding{
			Severity:   a.FallbackSeverity(),
			Reason:     "no mirror on its new route " + without(a, true) + "; only the source has it",
			OnlySource: true,
			Detail:     a.Places(),
			Copy:       copyToMirror(a),
		}, true
	case a.OutcomeAfter == evidence.Unsure && a.NewRoute.HasOpenMirror() && a.OutcomeAtMirrors == evidence.Fails:
		return policy.Finding{
			Severity: a.UnlessMirrorsFailed(),
			Reason:   "no mirror on its new route " + without(a, true) + ", and it could not be verified that the source does",
			Detail:   a.Places(),
			Copy:     copyToMirror(a),
		}, true
	default:
		return policy.Finding{}, false
	}
}
