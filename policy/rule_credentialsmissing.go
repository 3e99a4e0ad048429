package policy

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// CredentialsMissing: the mirrors answer 401 or 403 to the credentials that nodes have. For a
// mirror on a different host than the source these are only those of the global pull secret;
// pull secrets of pods and service accounts are never used there (newImageSourceAttempt in
// containers/image docker/docker_image_src.go), which surprises those who have set some. At the host of the source they are used,
// and where CRIOCredentialProviderConfig matches the image they are used for mirrors too: a denial there is for the rule
// Unverified.
func credentialsMissing(a *assessment) (Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() || a.absentSomewhere() || a.stopsForSignatures() {
		return Finding{}, false
	}
	denied, fact := a.deniedBy()
	if fact == nil {
		return Finding{}, false
	}
	f := Finding{
		Reason: "every mirror on its new route wants credentials that nodes do not have",
		Detail: a.places(),
		Remedy: []string{credentialsFor(fact, denied)},
	}
	switch {
	case a.after == Fails:
		f.Severity = a.unlessBroken()
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Fails:
		f.Severity = a.fallbackSeverity()
		f.Reason += "; nodes get it only from the source"
		f.OnlySource = true
	default:
		return Finding{}, false
	}
	if owner, ok := a.ownPullSecret(); ok {
		f.Detail = append(f.Detail, fmt.Sprintf("the pull secrets of %s are for the source; nodes do not send them to %s", owner, mirrors.HostOf(denied)))
	}
	return f, true
}

// mirrorsDeny returns what to do if all mirrors of the new route want credentials that the
// nodes do not have; "" otherwise. A copy would not help then.
func (a *assessment) mirrorsDeny() string {
	if !a.newRoute.hasOpenMirror() || a.newRoute.any(true, func(f *Fact) bool { return f.Presence != Denied }) {
		return ""
	}
	first := a.newRoute.mirrors()[0]
	return credentialsFor(first.fact, first.Ref)
}

// without says what the places lack: the image, or (if one denied us) the image and access to it.
func (a *assessment) without(onlyMirrors bool) string {
	if a.newRoute.any(onlyMirrors, func(f *Fact) bool { return f.Presence == Denied }) {
		return "has the image and lets nodes in"
	}
	return "has the image"
}

// ownPullSecret returns the first consumer that is known to have pull secrets of its own.
func (a *assessment) ownPullSecret() (Consumer, bool) {
	for _, c := range a.settings.sortConsumers(a.Image).Consumers {
		if c.OwnPullSecret && !c.PullSecretUnknown {
			return c, true
		}
	}
	return Consumer{}, false
}

// deniedBy returns the first place on the new route that wants credentials, and the fact; nil for none.
func (a *assessment) deniedBy() (string, *Fact) {
	for k := range a.After.Sources {
		if s := &a.After.Sources[k]; s.Tried() && a.newRoute.facts[k].Presence == Denied {
			return s.Ref, a.newRoute.facts[k]
		}
	}
	return "", nil
}
