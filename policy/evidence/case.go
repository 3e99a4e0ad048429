package evidence

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A Case is the view that a rule has of one reroute. Its methods are what rules may ask.
type Case struct {
	*Reroute
	// NewRoute and OldRoute hold what the facts prove, Found the facts as they were found.
	NewRoute, OldRoute WeighedRoute
	Found              policy.Facts
	Settings           *settings.Settings
	// OutcomeBefore and OutcomeAfter are those of a pull today and on the new route, OutcomeAtMirrors that of
	// a pull from its mirrors alone.
	OutcomeBefore, OutcomeAfter, OutcomeAtMirrors Outcome
	// Brief is set if Detail and Remedy of the findings are not needed.
	Brief bool
}

// Assess returns the case of r.
func Assess(s *settings.Settings, r *Reroute, facts policy.Facts) *Case {
	a := &Case{Reroute: r, NewRoute: r.WeighAfter(facts), OldRoute: r.WeighBefore(facts), Found: facts, Settings: s}
	a.OutcomeBefore = a.OutcomeToday()
	a.OutcomeAfter, a.OutcomeAtMirrors = a.NewRoute.Pull(false), a.NewRoute.Pull(true)
	return a
}

// UnlessBroken returns the severity of a finding about a pull that would fail: no denial if
// it is proved that the pull fails today as well, or that it works afterwards if it does
// today.
func (a *Case) UnlessBroken() policy.Severity { return DenyUnless(a.FailsToday(), a.NoWorse()) }

// UnlessMirrorsFailed returns the severity of a finding about a route whose mirrors do not
// help: no denial if it is proved that those of the old route do not either.
func (a *Case) UnlessMirrorsFailed() policy.Severity {
	return DenyUnless(a.mirrorsFailToday(), a.FailsToday(), a.NoWorse())
}

// FallbackSeverity returns the severity of a finding about a route on which only the source
// has the image.
func (a *Case) FallbackSeverity() policy.Severity {
	if a.Settings.AllowSourceFallback {
		return policy.Warn
	}
	return DenyUnless(a.mirrorsFailToday(), a.FailsToday(), a.NoWorse(), a.keepsPlaces())
}

// OnlySourceHolds reports whether the new route has mirrors and none of them is
// known to hold the image.
func (a *Case) OnlySourceHolds() bool {
	return a.NewRoute.HasOpenMirror() && !a.NewRoute.IsAtMirror()
}

// StopsForSignatures reports whether the pull fails as a place on the new route has the image, and ends
// it for its signatures. That is then the fault, whatever other places have.
func (a *Case) StopsForSignatures() bool {
	return a.OutcomeAfter == Fails && a.NewRoute.Any(false, func(f *policy.Fact) bool {
		return f.Presence == policy.Unsigned || f.Presence == policy.Missigned || f.Presence == policy.SignaturesDenied
	})
}

// AbsentSomewhere reports whether a place on the new route says that it does not have the
// image, as opposed to denying access.
func (a *Case) AbsentSomewhere() bool {
	return a.NewRoute.Any(false, func(f *policy.Fact) bool { return f.Presence == policy.Absent })
}

// EndedAt returns the places at which the pull may end with something other than the image
// or with a part of it, and the severity of that; none if it makes no difference.
func (a *Case) EndedAt() ([]Place, policy.Severity) {
	switch {
	case a.After.Err != nil:
		return nil, policy.Info
	case a.OutcomeAfter == Fails:
		return a.NewRoute.OpenPlaces(), a.UnlessBroken()
	case a.OutcomeAfter.Found() && a.OnlySourceHolds() && a.OutcomeAtMirrors == Fails: // only of a short name
		return a.NewRoute.MirrorPlaces(), a.FallbackSeverity()
	default:
		return nil, policy.Info
	}
}

// HasMirror reports whether the new route has mirrors, blocked or not.
func (a *Case) HasMirror() bool {
	return slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror })
}

// Mirrored reports whether the configuration sends pulls of the image to mirrors, or at
// least keeps them from its source.
func (a *Case) Mirrored() bool {
	return a.After.Err != nil || a.HasMirror() || a.After.SourceBlocked()
}

// Pending reports whether an answer about the new route was still awaited.
func (a *Case) Pending() bool {
	for _, at := range a.NewRoute.OpenPlaces() {
		awaited := slices.ContainsFunc(at.SignatureStates, func(s SignatureState) bool { return s.awaited })
		if at.Fact.Presence == policy.Unknown || at.Fact == &policy.PlatformsNotAsked || at.Fact == &policy.SignaturesNotAsked || awaited {
			return true
		}
	}
	return false
}

// Awaited reports whether a mirror has not answered. It may have the whole of an image, where another
// has only a part.
func (a *Case) Awaited() bool {
	return a.NewRoute.Any(true, (*policy.Fact).IsUndetermined)
}

// Running returns the digests that run under the reference, sorted.
func (a *Case) Running() []string { return DigestsOf(a.Image) }

// DigestsOf returns the digests that run under the reference of img, sorted.
func DigestsOf(img policy.Image) []string {
	var digests []string
	for _, c := range img.Consumers {
		if c.Use == policy.Running && c.Digest != "" {
			digests = append(digests, c.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// VerifyRemedy returns what to do so that the guard can verify the image. Where a place
// denies it access, trying again would not help.
func (a *Case) VerifyRemedy() []string {
	if a.Brief {
		return nil
	}
	for _, at := range a.NewRoute.OpenPlaces() {
		switch found := a.Found.At(at.Location); {
		case found.Never:
			return []string{"copy it first, then check without --assume: what its origin has cannot be asked"}
		case found.Presence != policy.Denied && found.Presence != policy.Absent:
		case !found.AsNodes:
			return []string{giveSecret}
		case found.Presence == policy.Denied:
			return []string{"let the guard see for itself: " + CredentialsFor(found, at.Ref)}
		}
	}
	for _, at := range a.NewRoute.OpenPlaces() {
		if at.Fact.IsUndetermined() {
			return []string{cmp.Or(a.FullName(at.Location), a.Help(a.Found.At(at.Location), at.Ref))}
		}
	}
	return []string{verifyAgain}
}

// giveSecret lets the guard ask as nodes do.
//
//nolint:gosec // it holds no credential
const giveSecret = "let the guard read Secret openshift-config/pull-secret, or give check the secret with --pull-secret FILE; then try again"

// Assumption says why the image counts as found on the new route, if it was found only on the evidence
// of a mirroring that has not been done: at the place that serves it, or of its signatures there.
func (a *Case) Assumption() string {
	at, ok := a.NewRoute.Served()
	if !ok {
		return ""
	}
	if at.Fact.Assumed != "" {
		return at.Fact.Assumed
	}
	for _, s := range at.SignatureStates {
		if f := a.Found.At(s.At); f.Assumed != "" {
			return f.Assumed
		}
	}
	return ""
}

// Places returns a line for each place of the new route, in order, with what was found there.
// The finding names the image in full, so digests are shortened here.
func (a *Case) Places() []string {
	if a.Brief {
		return nil
	}
	var lines []string
	for k, s := range a.After.Sources {
		found := policy.Describe(a.NewRoute.Facts[k])
		switch {
		case s.Refused:
			found = "refused by the registry lists of Image cluster"
		case s.Blocked:
			found = "blocked by the entry " + s.BlockedBy
		}
		lines = append(lines, text.ShortDigest(s.Ref)+": "+found)
	}
	return lines
}
