package policy

// NotFullySynced: after NeverContactSource (or a blocked registry) the mirrors
// are all that is left, and no mirror is verified to hold the image. This covers
// every image under the source, running or only referenced: what is scaled to
// zero today is pulled tomorrow.
//
// A mirror that holds it does not help behind one that answers with something else, where
// one before that could not be asked.
//
// What is missing and what could not be verified have different reasons, so that
// messages count them apart.
func notFullySynced(v *view) (Finding, bool) {
	if !v.After.SourceBlocked() || len(v.mirrorPlaces) == 0 || held(v.mirrorPlaces, v.facts) && v.mirrors != Unsure {
		return Finding{}, false
	}
	f := Finding{
		Severity: v.unlessBroken(),
		Reason:   "the source may not be contacted, and no mirror has the image",
		Detail:   v.places(),
		Remedy:   v.copyCommands(),
	}
	if v.mirrors == Unsure {
		f.Reason = "the source may not be contacted, and no mirror could be verified to have the image"
		f.Remedy = v.waysToVerify()
	}
	return f, true
}
