package policy

// ImageMissing: no mirror on the new route holds the image, or, where the new
// route has no mirrors, the source does not. With AllowContactingSource a node would still
// fall back to the source; but then the mirror set does not keep its promise, and the pull
// fails on the day the source is out of reach, which is what mirrors are for. So that denies
// as well, with a different reason, unless the settings allow the fallback for a time or the
// old route was in the same state.
func imageMissing(a *assessment) (Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() || !a.absentSomewhere() || a.stopsForSignatures() {
		return Finding{}, false
	}
	switch {
	case a.after == Fails:
		return Finding{
			Severity: a.unlessBroken(),
			Reason:   "no place on its new route " + a.without(false),
			Detail:   a.places(),
			Copy:     a.copyToMirror(),
		}, true
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Fails:
		return Finding{
			Severity:   a.fallbackSeverity(),
			Reason:     "no mirror on its new route " + a.without(true) + "; only the source has it",
			OnlySource: true,
			Detail:     a.places(),
			Copy:       a.copyToMirror(),
		}, true
	case a.after == Unsure && a.newRoute.hasOpenMirror() && a.mirrors == Fails:
		return Finding{
			Severity: a.unlessMirrorsFailed(),
			Reason:   "no mirror on its new route " + a.without(true) + ", and it could not be verified that the source does",
			Detail:   a.places(),
			Copy:     a.copyToMirror(),
		}, true
	default:
		return Finding{}, false
	}
}
