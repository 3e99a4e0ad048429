package policy

// ImageMissing: no mirror on the new route holds the image, or, where the new
// route has no mirrors, the source does not. With AllowContactingSource a node
// would still fall back to the source; the mirror set then promises what it does
// not keep, and the day the source is out of reach (which is what mirrors are
// for) the pull fails. So it denies as well, in other words, unless the settings
// allow the fall-back for a time or it was so before.
func imageMissing(v *view) (Finding, bool) {
	if v.After.Err != nil || v.After.SourceBlocked() || !v.absentSomewhere() {
		return Finding{}, false
	}
	switch {
	case v.after == Fails:
		return Finding{
			Severity: v.unlessBroken(),
			Reason:   "no place on its new route has the image",
			Detail:   v.places(),
			Remedy:   v.copyCommands(),
		}, true
	case v.after.Found() && v.onlySourceHolds() && v.mirrors == Fails:
		return Finding{
			Severity: v.fallBack(),
			Reason:   "no mirror on its new route has the image; only the source has it",
			Detail:   v.places(),
			Remedy:   v.copyCommands(),
		}, true
	case v.after == Unsure && len(v.mirrorPlaces) > 0 && v.mirrors == Fails:
		return Finding{
			Severity: v.unlessSo(),
			Reason:   "no mirror on its new route has the image, and nobody could tell whether the source has",
			Detail:   v.places(),
			Remedy:   v.copyCommands(),
		}, true
	default:
		return Finding{}, false
	}
}

// absentSomewhere reports whether a place on the new route says that it does not
// have the image, rather than that nobody may know.
func (v *view) absentSomewhere() bool {
	for _, l := range v.open {
		if v.facts[l].Presence == Absent {
			return true
		}
	}
	return false
}

// onlySourceHolds reports whether the new route has mirrors and none of them is
// known to hold the image.
func (v *view) onlySourceHolds() bool {
	mirrors := v.mirrorPlaces
	return len(mirrors) > 0 && !held(mirrors, v.facts)
}

// fallBack is the severity of a route that is left with its source.
func (v *view) fallBack() Severity {
	if v.settings.AllowSourceFallback {
		return Warn
	}
	return v.unlessSo()
}

// unlessSo is the severity of a route whose mirrors do not help: no denial if it
// is proved that those of the old route did not either.
func (v *view) unlessSo() Severity {
	if len(v.beforeMirrors) > 0 && v.mirrorsBefore == Fails && !v.Before.SourceBlocked() {
		return Warn
	}
	return v.unlessBroken()
}
