package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// ContentMismatch: a place on the new route answers 200, but not with the image:
// the digest differs, or what comes is no manifest. containers/image chooses a
// place by that first answer; there is no way back to the next one, so the pull
// fails although a later place may hold the image. Of a short name, the pull goes on with
// the next search registry: what nodes get there is another image by the same name.
func contentMismatch(v *view) (Finding, bool) {
	ended, severity := v.endedAt()
	for _, l := range ended {
		if v.facts[l].Presence == Mismatch {
			return Finding{
				Severity: severity,
				Reason:   "a place on its new route answers with something else, and nodes would stop there",
				Detail:   v.places(),
				Remedy:   []string{"remove or repair what " + host(l.Ref) + " serves under " + l.Ref},
			}, true
		}
	}
	return Finding{}, false
}

// endedAt returns the places at which the pull may end with something else than the image
// or a part of it, and the severity of that; none if it makes no difference.
func (v *view) endedAt() ([]mirrors.Location, Severity) {
	switch {
	case v.After.Err != nil:
		return nil, Info
	case v.after == Fails:
		return v.open, v.unlessBroken()
	case v.after.Found() && v.onlySourceHolds() && v.mirrors == Fails: // only of a short name
		return v.mirrorPlaces, v.fallBack()
	default:
		return nil, Info
	}
}
