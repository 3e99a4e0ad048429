package rules

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// CredentialsMissing: the mirrors answer 401 or 403 to the credentials that nodes have. For a
// mirror on a different host than the source these are only those of the global pull secret;
// pull secrets of pods and service accounts are never used there (newImageSourceAttempt in
// containers/image docker/docker_image_src.go), which surprises those who have set some. At the host of the source they are used,
// and where CRIOCredentialProviderConfig matches the image they are used for mirrors too: a denial there is for the rule
// Unverified.
func credentialsMissing(a *evidence.Case) (policy.Finding, bool) {
	if a.After.Err != nil || a.After.SourceBlocked() || a.AbsentSomewhere() || a.StopsForSignatures() {
		return policy.Finding{}, false
	}
	denied, fact := deniedBy(a)
	if fact == nil {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Reason: "no mirror on its new route lets nodes in with their global pull secret",
		Detail: a.Places(),
	}
	if mirrorsDeny(a) != "" { // some registries say so of what they do not have
		f.Copy = copyToMirror(a)
	} else {
		f.Remedy = []string{evidence.CredentialsFor(fact, denied)}
	}
	switch {
	case a.OutcomeAfter == evidence.Fails:
		f.Severity = a.UnlessBroken()
	case a.OutcomeAfter.Found() && a.OnlySourceHolds() && a.OutcomeAtMirrors == evidence.Fails:
		f.Severity = a.FallbackSeverity()
		f.Reason += "; nodes get it only from the source"
		f.OnlySource = true
	default:
		return policy.Finding{}, false
	}
	if owner, ok := ownPullSecret(a); ok {
		f.Detail = append(f.Detail, fmt.Sprintf("the pull secrets of %s are for the source; nodes do not send them to %s", owner, mirrors.HostOf(denied)))
	}
	return f, true
}

// without says what the places lack: the image, or (if one denied us) the image and access to it.
func without(a *evidence.Case, onlyMirrors bool) string {
	if a.NewRoute.Any(onlyMirrors, func(f *policy.Fact) bool { return f.Presence == policy.Denied }) {
		return "has the image and lets nodes in"
	}
	return "has the image"
}

// ownPullSecret returns the first consumer that is known to have pull secrets of its own.
func ownPullSecret(a *evidence.Case) (policy.Consumer, bool) {
	for _, c := range a.Settings.SortConsumers(a.Image).Consumers {
		if c.OwnPullSecret && !c.PullSecretUnknown {
			return c, true
		}
	}
	return policy.Consumer{}, false
}

// deniedBy returns the first place on the new route that wants credentials, and the fact; nil for none.
func deniedBy(a *evidence.Case) (string, *policy.Fact) {
	for k := range a.After.Sources {
		if s := &a.After.Sources[k]; s.Tried() && a.NewRoute.Facts[k].Presence == policy.Denied {
			return s.Ref, a.NewRoute.Facts[k]
		}
	}
	return "", nil
}
