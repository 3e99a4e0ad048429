package policy

// ImageMissing: no mirror on the new route holds the image, or, where the new
// route has no mirrors, the source does not. With AllowContactingSource a node
// would still fall back to the source; the mirror set then promises what it does
// not keep, and the day the source is out of reach (which is what mirrors are
// for) the pull fails. So it denies as well, in other words, unless the settings
// allow the fall-back for a time or it was so before.
func imageMissing(a *assessment) (Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() || !a.absentSomewhere() {
		return Finding{}, false
	}
	switch {
	case a.after == Fails:
		return Finding{
			Severity: a.unlessBroken(),
			Reason:   "no place on its new route has the image",
			Detail:   a.places(),
			Remedy:   a.copyCommands(),
		}, true
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Fails:
		return Finding{
			Severity: a.fallbackSeverity(),
			Reason:   "no mirror on its new route has the image; only the source has it",
			Detail:   a.places(),
			Remedy:   a.copyCommands(),
		}, true
	case a.after == Unsure && len(a.mirrorPlaces) > 0 && a.mirrors == Fails:
		return Finding{
			Severity: a.unlessMirrorsFailed(),
			Reason:   "no mirror on its new route has the image, and it could not be verified that the source does",
			Detail:   a.places(),
			Remedy:   a.copyCommands(),
		}, true
	default:
		return Finding{}, false
	}
}
