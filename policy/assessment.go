package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An assessment is what a rule sees of one reroute, and what it can ask of it.
type assessment struct {
	Reroute
	facts       evidence // of the new route
	beforeFacts evidence // of the old route
	found       Facts    // as they were found
	settings    Settings
	// before and after are what comes of a pull on either route, mirrorsBefore and mirrors
	// of one from the mirrors on it alone. That the old route Fails is proved.
	before, after          Outcome
	mirrorsBefore, mirrors Outcome

	// The places that are not blocked, of the new route and of the old.
	open, mirrorPlaces, beforeOpen, beforeMirrors []mirrors.Location
}

func (s Settings) assess(r Reroute, facts Facts) *assessment {
	a := &assessment{
		Reroute: r, facts: r.weigh(facts, false), beforeFacts: r.weigh(facts, true), found: facts, settings: s,
		open: r.After.Open(), mirrorPlaces: r.After.Mirrors(),
		beforeOpen: r.Before.Open(), beforeMirrors: r.Before.Mirrors(),
	}
	a.after, a.mirrors = walk(r.After.Sources, a.facts, false), walk(r.After.Sources, a.facts, true)
	a.before, a.mirrorsBefore = walk(r.Before.Sources, a.beforeFacts, false), walk(r.Before.Sources, a.beforeFacts, true)
	if r.BeforeUnknown {
		a.before, a.mirrorsBefore = Unsure, Unsure
	}
	return a
}

// unlessBroken is the severity of what would be the end of a pull: no denial if
// it is proved that the pull fails today as well, or works afterwards if it does today.
func (a *assessment) unlessBroken() Severity {
	if a.before == Fails || a.noWorse() {
		return Warn
	}
	return Deny
}

// unlessSo is the severity of a route whose mirrors do not help: no denial if it
// is proved that those of the old route did not either.
func (a *assessment) unlessSo() Severity {
	if len(a.beforeMirrors) > 0 && a.mirrorsBefore == Fails && !a.Before.SourceBlocked() {
		return Warn
	}
	return a.unlessBroken()
}

// fallBack is the severity of a route that is left with its source.
func (a *assessment) fallBack() Severity {
	if a.settings.AllowSourceFallback {
		return Warn
	}
	return a.unlessSo()
}

// onlySourceHolds reports whether the new route has mirrors and none of them is
// known to hold the image.
func (a *assessment) onlySourceHolds() bool {
	mirrors := a.mirrorPlaces
	return len(mirrors) > 0 && !held(mirrors, a.facts)
}

// absentSomewhere reports whether a place on the new route says that it does not
// have the image, rather than that nobody may know.
func (a *assessment) absentSomewhere() bool {
	for _, l := range a.open {
		if a.facts.at(l).Presence == Absent {
			return true
		}
	}
	return false
}

// endedAt returns the places at which the pull may end with something else than the image
// or a part of it, and the severity of that; none if it makes no difference.
func (a *assessment) endedAt() ([]mirrors.Location, Severity) {
	switch {
	case a.After.Err != nil:
		return nil, Info
	case a.after == Fails:
		return a.open, a.unlessBroken()
	case a.after.Found() && a.onlySourceHolds() && a.mirrors == Fails: // only of a short name
		return a.mirrorPlaces, a.fallBack()
	default:
		return nil, Info
	}
}

// hasMirror reports whether the new route has mirrors, blocked or not.
func (a *assessment) hasMirror() bool {
	return slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror })
}

// mirrored reports whether the configuration sends the image to mirrors, or at least
// away from its source.
func (a *assessment) mirrored() bool {
	return a.After.Err != nil || a.hasMirror() || a.After.SourceBlocked()
}

// pending reports whether an answer about the new route was still awaited.
func (a *assessment) pending() bool {
	return slices.ContainsFunc(a.open, func(l mirrors.Location) bool { return a.facts.at(l).Presence == Unknown })
}

// awaited reports whether a mirror has not said what it has. It may have the whole of
// what another one has in part.
func (a *assessment) awaited() bool {
	return slices.ContainsFunc(a.mirrorPlaces, func(l mirrors.Location) bool {
		p := a.facts.at(l).Presence
		return p == Unknown || p == Unreachable
	})
}

// running returns the digests that run under the reference, sorted.
func (a *assessment) running() []string {
	var digests []string
	for _, u := range a.Image.Consumers {
		if u.Use == Running && u.Digest != "" {
			digests = append(digests, u.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// waysToVerify returns what would let the guard find out. Where a place denies it, no
// second try would.
func (a *assessment) waysToVerify() []string {
	for _, l := range a.open {
		if a.found[l].Presence == Denied {
			return []string{fmt.Sprintf("let the guard see for itself: add credentials for %s to Secret openshift-config/pull-secret", host(l.Ref))}
		}
	}
	return []string{verifyAgain}
}

const verifyAgain = "make the registry answer, then try again; answers that arrive late are kept for the next try"
