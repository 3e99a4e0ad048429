package evidence

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Only a proof weakens a verdict, and the only proofs are those that the functions of this file find on the
// old route. There, the only failure is a miss: the answer of a registry that was asked just now, with the very
// credentials that nodes have, for pods that have no others. A page instead of the image, an error or silence prove
// nothing: they may come from something in front of the registry, last for a minute, or be due to the network from here.

// A Proof is evidence by which a denial becomes a warning. The zero value proves nothing. Only
// the methods below make others.
type Proof struct{ Holds bool }

// DenyUnless returns Deny, or Warn where one of proofs holds.
func DenyUnless(proofs ...Proof) policy.Severity {
	for _, p := range proofs {
		if p.Holds {
			return policy.Warn
		}
	}
	return policy.Deny
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
// has the image. That old mirrors lack it proves nothing of a new one in front, which may have a page instead, and end the pull of a
// protected image.
func (a *Case) FallbackSeverity() policy.Severity {
	if a.Settings.AllowSourceFallback {
		return policy.Warn
	}
	if a.Protected && a.OutcomeAfter == WorksBehind {
		return a.UnlessBroken()
	}
	return DenyUnless(a.mirrorsFailToday(), a.FailsToday(), a.NoWorse(), a.keepsPlaces())
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

// today is proof that all routes that nodes take today are known, and that holds is true of each.
func (a *Case) today(holds func(*WeighedRoute) bool) Proof {
	if a.BeforeUnknown || !holds(&a.OldRoute) {
		return Proof{}
	}
	for _, c := range a.Rarely().Current {
		if c.By.Routes == nil {
			return Proof{}
		}
		if today := a.Weigh(&c.Route, a.Found, true); !holds(&today) {
			return Proof{}
		}
	}
	return Proof{true}
}

// FailsToday is proof that nodes do not get the image today. Where the old route is not known, all
// routes by the objects in force or by none, and the new one, have to fail: the image is dead
// everywhere. That proves nothing for a protected or running image: nodes may have a mirror that no
// object names any more.
func (a *Case) FailsToday() Proof {
	fails := func(today *WeighedRoute) bool { return today.Pull(false) == Fails } // which is proved
	if !a.BeforeUnknown {
		return a.today(fails)
	}
	return Proof{!a.Protected && len(a.Running()) == 0 && a.OutcomeAfter == Fails && len(a.Rarely().Maybe) > 0 && !slices.ContainsFunc(a.OtherRoutes(), func(route *mirrors.Route) bool {
		maybe := a.Weigh(route, a.Found, true)
		return !fails(&maybe)
	})}
}

// mirrorsFailToday is proof that the mirrors of the old route do not serve the image, although
// it has some and nodes may contact its source.
func (a *Case) mirrorsFailToday() Proof {
	return a.today(func(today *WeighedRoute) bool {
		return today.HasOpenMirror() && !a.isFirstMirror(today) && today.Pull(true) == Fails && !today.SourceBlocked()
	})
}

// isFirstMirror reports whether the new route has a mirror of a registry that has none today, of several for a short name: of those
// that nodes may come to.
func (a *Case) isFirstMirror(today *WeighedRoute) bool {
	of := func(r *mirrors.Route, places []Place) (names []string) {
		for _, at := range places {
			names = append(names, NameOf(r, at.Candidate))
		}
		return names
	}
	mirrored := a.NewRoute.MirrorPlaces()
	if at, holds := a.NewRoute.holder(); holds {
		mirrored = slices.DeleteFunc(mirrored, func(m Place) bool { return m.Candidate > at.Candidate })
	}
	before, asked := of(today.Route, today.MirrorPlaces()), of(today.Route, today.OpenPlaces())
	return slices.ContainsFunc(of(&a.After, mirrored), func(name string) bool {
		return !slices.Contains(before, name) && (len(before) == 0 || slices.Contains(asked, name))
	})
}

// OnlySourceHolds reports whether the new route has mirrors and none of them is
// known to hold the image. Those of other registries than that of a short name need not.
func (a *Case) OnlySourceHolds() bool {
	if !a.NewRoute.HasOpenMirror() || a.NewRoute.IsAtMirror() {
		return false
	}
	_, proved := a.unmirrored()
	return !proved
}

// Mirrored reports whether the configuration sends pulls of the image to mirrors, or at
// least keeps them from its source. Mirrors of other registries than that of a short name count
// unless what runs is known to be there: they may have lost what is not.
func (a *Case) Mirrored() bool {
	at, proved := a.unmirrored()
	runsThere := proved && len(a.Running()) > 0 && at.Fact.HasDigest() && !a.IsAnother(at.Fact)
	return a.After.Err != nil || a.HasMirror() && !runsThere || a.After.SourceBlocked()
}

// unmirrored returns the place at which nodes get a short name today and will, where its registry has no mirrors on the new route,
// and whether that is proved: no place before it may have an image of that name.
func (a *Case) unmirrored() (at Place, proved bool) {
	at, holds := a.NewRoute.holder()
	if !holds || slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror && s.Candidate == at.Candidate }) {
		return at, false
	}
	return at, a.today(func(today *WeighedRoute) bool {
		before, held := today.holder()
		return held && before.Location == at.Location
	}).Holds
}

// holder returns the first place that is not known to lack the image, and whether it is known to have it for nodes of every platform.
// One that denies may serve it in a minute.
func (r WeighedRoute) holder() (at Place, holds bool) {
	for _, at = range r.OpenPlaces() {
		if f := at.Fact; f.Presence != policy.Absent || f.Recalled {
			return at, servesAll(f)
		}
	}
	return at, false
}

// keepsPlaces is proof that nodes ask the same places as today, in the same way: the change is about
// requirements, and no promise that mirrors have the image. They must be known to lack it: one that
// denies, or sends a page, may serve it in a minute, and then its signatures count.
func (a *Case) keepsPlaces() Proof {
	mayServe := a.NewRoute.Any(true, func(f *policy.Fact) bool { return f.Presence != policy.Absent || f.Recalled || !f.AsNodes })
	return a.today(func(today *WeighedRoute) bool { return !mayServe && today.SamePlaces(a.After) })
}

// PartsFailToday is proof that nodes reject today, for their signatures, all parts of the image
// that they would reject at a place of the new route, which lacks none.
func (a *Case) PartsFailToday(at Place) Proof {
	return a.today(func(today *WeighedRoute) bool {
		return len(at.SignatureStates) > 0 && len(at.Fact.Missing) == 0 && !IsShort(*today.Route) && !IsShort(a.After) && rejectsParts(today, at)
	})
}

func rejectsParts(today *WeighedRoute, at Place) bool {
	for _, before := range today.OpenPlaces() {
		if before.Fact.Presence == policy.Absent && !before.Fact.Recalled {
			continue
		}
		return !slices.ContainsFunc(at.SignatureStates, func(s SignatureState) bool {
			return s.Presence != policy.Present && !slices.ContainsFunc(before.SignatureStates, func(t SignatureState) bool {
				return t.Platform == s.Platform && (t.Presence == policy.Unsigned || t.Presence == policy.Missigned)
			})
		})
	}
	return false
}

// NoWorse is proof that nodes get the image on the new route if they do
// today, and from mirrors if they do so today, whatever the places that could not be asked
// would say. A source's first mirror is judged by what it holds, since it is a promise that
// was not made before.
func (a *Case) NoWorse() Proof {
	return a.today(func(today *WeighedRoute) bool {
		switch {
		case a.isFirstMirror(today):
			return false
		case IsShort(*today.Route) || IsShort(a.After):
			return keepsAll(today, &a.NewRoute)
		default:
			return reaches(today.OpenPlaces(), a.NewRoute.OpenPlaces(), servesAll) && reaches(today.MirrorPlaces(), a.NewRoute.MirrorPlaces(), servesAll)
		}
	})
}

// KeepsPlatforms is proof of NoWorse for nodes of every platform.
func (a *Case) KeepsPlatforms() Proof {
	return a.today(func(today *WeighedRoute) bool {
		if IsShort(*today.Route) || IsShort(a.After) {
			return keepsAll(today, &a.NewRoute)
		}
		return reaches(today.OpenPlaces(), a.NewRoute.OpenPlaces(), servesAll)
	})
}

// GetsTheSame is proof that nodes would get today, too, what fact is about, whatever runs. Of a short name, those of some
// platforms may get another.
func (a *Case) GetsTheSame(fact *policy.Fact) Proof {
	return a.today(func(today *WeighedRoute) bool {
		before, served := a.ServedOn(today)
		return served && !IsShort(*today.Route) && before.HasDigest() && policy.IsOneImage(fact, before)
	})
}

// LacksTheSame is proof that nodes of lost, platforms for which the new route has nothing, get
// nothing today either: the old route serves a copy that is known to lack them. Of a short name, no place that they
// come to has anything for them, as they go on to the next registry.
func (a *Case) LacksTheSame(lost []string) Proof {
	mayServe := func(f *policy.Fact) bool {
		return (f.Presence != policy.Absent || f.Recalled) && slices.ContainsFunc(lost, func(platform string) bool {
			return !slices.Contains(f.Missing, platform) && !slices.Contains(f.Lacks, platform)
		})
	}
	return a.today(func(today *WeighedRoute) bool {
		before, served := a.ServedOn(today)
		if !served || len(lost) == 0 || mayServe(before) {
			return false
		}
		for at := range today.met {
			if IsShort(*today.Route) && mayServe(at.Fact) {
				return false
			}
		}
		return true
	})
}

// ServedOn returns what nodes get on today, a route of today, and whether that is known. It is not
// where a place in front could not be asked, unless nodes will also ask that one first on the
// new route.
func (a *Case) ServedOn(today *WeighedRoute) (*policy.Fact, bool) {
	before, ok := today.Served()
	now, _ := a.NewRoute.Served()
	open := a.After.Open()
	kept := open[:max(0, slices.Index(open, now.Location))]
	moved := func(l mirrors.Location) bool { return !slices.Contains(kept, l) }
	return before.Fact, ok && !slices.ContainsFunc(today.UnverifiedFront(), moved)
}
