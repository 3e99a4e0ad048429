package policy

// NotFullySynced: after NeverContactSource (or a blocked registry) the mirrors
// are all that is left, and no mirror is verified to hold the image. This covers every image under the
// source, running or only referenced: a workload scaled to zero today pulls tomorrow.
//
// A mirror that holds it does not help if it comes after one that answers with something
// else, and another before that could not be asked.
//
// Missing images and those that could not be verified have different reasons, as messages
// count them separately.
func notFullySynced(a *assessment) (Finding, bool) {
	if !a.After.SourceBlocked() || !a.newRoute.hasOpenMirror() || a.stopsForSignatures() || a.newRoute.isAtMirror() && a.mirrors != Unsure {
		return Finding{}, false
	}
	f := Finding{
		Severity: a.unlessBroken(),
		Reason:   "the source may not be contacted, and no mirror " + a.without(true),
		Detail:   a.places(),
		Copy:     a.copyToMirror(),
	}
	if a.mirrorsDeny() != "" {
		f.Reason = "the source may not be contacted, and no mirror lets nodes in"
	}
	if a.mirrors == Unsure {
		f.Reason = "the source may not be contacted, and no mirror could be verified to have the image"
		f.Copy, f.Remedy = nil, a.verifyRemedy()
	}
	return f, true
}
