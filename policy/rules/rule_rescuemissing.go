package rules

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// A cluster has images that nothing runs until something is wrong: must-gather, what oc debug starts on a
// node, the support tools. No pod names them, so that they are missed on that day. They are the rescue set.

// cutsOff reports whether the change takes away an image that no object names. A mirror that lacks one is not its fault: the
// source is asked next, as before. It must be proved that it was out of reach before, too.
func cutsOff(a *evidence.Case) bool {
	worse := a.OutcomeAfter == evidence.Fails || a.OutcomeAfter == evidence.Unsure && a.OutcomeToday().Found() || a.After.SourceBlocked()
	return !a.FailsToday().Holds && (worse || a.After.Err != nil || a.After.Refused != "")
}

// rescueMissing is RescueMissing: nodes would not get an image of the rescue set on its new route, or that
// is unknown. Nothing fails today. On the day it is needed there is no time to mirror it.
func rescueMissing(a *evidence.Case) (policy.Finding, bool) {
	reason := ""
	switch {
	case slices.ContainsFunc(a.Image.Consumers, func(c policy.Consumer) bool { return c.Kind == policy.CommandKind }) && !cutsOff(a):
		return policy.Finding{}, false
	case a.After.Err != nil, a.After.Refused != "", a.OutcomeAfter == evidence.Fails:
		reason = "nodes could not pull it on the day it is needed"
	case a.OutcomeAfter == evidence.Unsure:
		reason = "it could not be verified that nodes can pull it on the day it is needed"
	case a.OnlySourceHolds() && a.OutcomeAtMirrors == evidence.Fails:
		reason = "only the source has it, which may be away on the day it is needed"
	default:
		return policy.Finding{}, false
	}
	f := policy.Finding{Severity: policy.Warn, Reason: reason, Detail: a.Places()}
	for _, cause := range []func(*evidence.Case) (policy.Finding, bool){rewriteError, noRoute, signatureMissing, signatureRejected, signatureUnreadable, contentMismatch} {
		if found, ok := cause(a); ok { // with the remedy
			found.Severity, found.Reason = policy.Warn, reason+": "+found.Reason
			return found, true
		}
	}
	if a.AbsentSomewhere() && a.NewRoute.HasOpenMirror() {
		f.Copy = copyToMirror(a)
		return f, true
	}
	f.Remedy = a.VerifyRemedy()
	return f, true
}
