package policy

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An assessment is the view that a rule has of one reroute. Its methods are what rules may ask.
type assessment struct {
	*Reroute
	// newRoute and oldRoute hold what the facts prove, found the facts as they were found.
	newRoute, oldRoute weighedRoute
	found              Facts
	settings           *Settings
	// before and after are the outcomes of a pull today and on the new route, mirrors that of a pull
	// from its mirrors alone.
	before, after, mirrors Outcome
	// brief is set if Detail and Remedy of the findings are not needed.
	brief bool
}

func (s *Settings) assess(r *Reroute, facts Facts) *assessment {
	a := &assessment{Reroute: r, newRoute: r.weighAfter(facts), oldRoute: r.weighBefore(facts), found: facts, settings: s}
	a.before = a.outcomeToday()
	a.after, a.mirrors = a.newRoute.pull(false), a.newRoute.pull(true)
	return a
}

// unlessBroken returns the severity of a finding about a pull that would fail: no denial if
// it is proved that the pull fails today as well, or that it works afterwards if it does
// today.
func (a *assessment) unlessBroken() Severity { return denyUnless(a.failsToday(), a.noWorse()) }

// unlessMirrorsFailed returns the severity of a finding about a route whose mirrors do not
// help: no denial if it is proved that those of the old route do not either.
func (a *assessment) unlessMirrorsFailed() Severity {
	return denyUnless(a.mirrorsFailToday(), a.failsToday(), a.noWorse())
}

// fallbackSeverity returns the severity of a finding about a route on which only the source
// has the image.
func (a *assessment) fallbackSeverity() Severity {
	if a.settings.AllowSourceFallback {
		return Warn
	}
	return denyUnless(a.mirrorsFailToday(), a.failsToday(), a.noWorse(), a.keepsPlaces())
}

// onlySourceHolds reports whether the new route has mirrors and none of them is
// known to hold the image.
func (a *assessment) onlySourceHolds() bool {
	return a.newRoute.hasOpenMirror() && !a.newRoute.isAtMirror()
}

// stopsForSignatures reports whether the pull fails as a place on the new route has the image, and ends
// it for its signatures. That is then the fault, whatever other places have.
func (a *assessment) stopsForSignatures() bool {
	return a.after == Fails && a.newRoute.any(false, func(f *Fact) bool {
		return f.Presence == Unsigned || f.Presence == Missigned || f.Presence == SignaturesDenied
	})
}

// absentSomewhere reports whether a place on the new route says that it does not have the
// image, as opposed to denying access.
func (a *assessment) absentSomewhere() bool {
	return a.newRoute.any(false, func(f *Fact) bool { return f.Presence == Absent })
}

// endedAt returns the places at which the pull may end with something other than the image
// or with a part of it, and the severity of that; none if it makes no difference.
func (a *assessment) endedAt() ([]place, Severity) {
	switch {
	case a.After.Err != nil:
		return nil, Info
	case a.after == Fails:
		return a.newRoute.open(), a.unlessBroken()
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Fails: // only of a short name
		return a.newRoute.mirrors(), a.fallbackSeverity()
	default:
		return nil, Info
	}
}

// hasMirror reports whether the new route has mirrors, blocked or not.
func (a *assessment) hasMirror() bool {
	return slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror })
}

// mirrored reports whether the configuration sends pulls of the image to mirrors, or at
// least keeps them from its source.
func (a *assessment) mirrored() bool {
	return a.After.Err != nil || a.hasMirror() || a.After.SourceBlocked()
}

// pending reports whether an answer about the new route was still awaited.
func (a *assessment) pending() bool {
	for _, at := range a.newRoute.open() {
		awaited := slices.ContainsFunc(at.signatures, func(s signatureState) bool { return s.awaited })
		if at.fact.Presence == Unknown || at.fact == &platformsNotAsked || at.fact == &signaturesNotAsked || awaited {
			return true
		}
	}
	return false
}

// awaited reports whether a mirror has not answered. It may have the whole of an image, where another
// has only a part.
func (a *assessment) awaited() bool {
	return a.newRoute.any(true, (*Fact).isUndetermined)
}

// running returns the digests that run under the reference, sorted.
func (a *assessment) running() []string { return digestsOf(a.Image) }

func digestsOf(img Image) []string {
	var digests []string
	for _, c := range img.Consumers {
		if c.Use == Running && c.Digest != "" {
			digests = append(digests, c.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// verifyRemedy returns what to do so that the guard can verify the image. Where a place
// denies it access, trying again would not help.
func (a *assessment) verifyRemedy() []string {
	if a.brief {
		return nil
	}
	for _, at := range a.newRoute.open() {
		switch found := a.found.At(at.Location); {
		case found.Never:
			return []string{"copy it first, then check without --assume: what its origin has cannot be asked"}
		case found.Presence != Denied && found.Presence != Absent:
		case !found.AsNodes:
			return []string{giveSecret}
		case found.Presence == Denied:
			return []string{"let the guard see for itself: " + credentialsFor(found, at.Ref)}
		}
	}
	for _, at := range a.newRoute.open() {
		if at.fact.isUndetermined() {
			return []string{cmp.Or(a.fullName(at.Location), a.help(a.found.At(at.Location), at.Ref))}
		}
	}
	return []string{verifyAgain}
}

// giveSecret lets the guard ask as nodes do.
//
//nolint:gosec // it holds no credential
const giveSecret = "let the guard read Secret openshift-config/pull-secret, or give check the secret with --pull-secret FILE; then try again"
