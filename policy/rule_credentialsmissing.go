package policy

import "fmt"

// CredentialsMissing: the mirrors answer 401 or 403 with the credentials that
// nodes have. For a mirror on another host than the source these are the global
// pull secret's only; pull secrets of pods and service accounts are never used
// there (semantics §4).
func credentialsMissing(v *view) (Finding, bool) {
	if v.After.Err != nil || v.After.SourceBlocked() || v.absentSomewhere() {
		return Finding{}, false
	}
	denied := v.deniedBy()
	if denied == "" {
		return Finding{}, false
	}
	f := Finding{
		Reason: "no mirror on its new route lets nodes in",
		Detail: v.places(),
		Remedy: []string{fmt.Sprintf("add credentials for %s to Secret openshift-config/pull-secret", denied)},
	}
	switch {
	case v.after == Fails:
		f.Severity = v.unlessBroken()
	case v.after == Works && v.onlySourceHolds() && v.mirrors == Fails:
		f.Severity = v.fallBack()
		f.Reason += "; only the source does"
	default:
		return Finding{}, false
	}
	return f, true
}

// deniedBy returns the first host on the new route that wants credentials.
func (v *view) deniedBy() string {
	for _, l := range v.open {
		if v.facts[l].Presence == Denied {
			return host(l.Ref)
		}
	}
	return ""
}
