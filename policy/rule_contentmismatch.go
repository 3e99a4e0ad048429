package policy

// ContentMismatch: a place on the new route answers 200, but not with the image:
// the digest differs, or what comes is no manifest. containers/image chooses a
// place by that first answer; there is no way back to the next one, so the pull
// fails although a later place may hold the image.
func contentMismatch(v *view) (Finding, bool) {
	if v.After.Err != nil || v.after != Fails {
		return Finding{}, false
	}
	for _, l := range v.open {
		if v.facts[l].Presence == Mismatch {
			return Finding{
				Severity: v.unlessBroken(),
				Reason:   "a place on its new route answers with something else, and nodes would stop there",
				Detail:   v.places(),
				Remedy:   []string{"remove or repair what " + host(l.Ref) + " serves under " + l.Ref},
			}, true
		}
	}
	return Finding{}, false
}
