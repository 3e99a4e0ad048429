package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
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

// OutcomeToday returns the outcome of a pull today, which is Unsure where it is not the same for all
// nodes, or not known.
func (a *Case) OutcomeToday() Outcome {
	outcome := a.OldRoute.Pull(false)
	if a.BeforeUnknown {
		return Unsure
	}
	for _, c := range a.Rarely().Current {
		if c.By.Routes == nil {
			return Unsure
		}
		if today := a.Weigh(&c.Route, a.Found, true); today.Pull(false) != outcome {
			return Unsure
		}
	}
	return outcome
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

// HasMirror reports whether the new route has mirrors, blocked or not.
func (a *Case) HasMirror() bool {
	return slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror })
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

// ByObjects returns a as if all nodes had what the objects in force say.
func (a *Case) ByObjects() *Case {
	b, r, rare := *a, *a.Reroute, a.Rarely()
	rare.Current = nil
	r.SetRare(rare)
	b.Reroute = &r
	return &b
}

// TellCurrent adds to f, a denial only because nodes lag behind the objects in force, the configs that
// they have, and a remedy for those that were not read.
func (a *Case) TellCurrent(f *policy.Finding) {
	var lines, remedies []string
	for _, c := range a.Rarely().Current {
		by := c.By
		line := fmt.Sprintf("nodes of %s do not have the objects in force yet, but MachineConfig %s", PoolOr(by.Pool), by.Name)
		if by.Routes == nil {
			line += ", which was not read"
			remedies = append(remedies, fmt.Sprintf("let the guard read MachineConfig %s, or add it to the dump: it shows whether nodes get the image today", by.Name))
		} else {
			open := convert.Each(c.Route.Open(), func(l mirrors.Location) string { return l.Ref })
			line += ", by which they look for it at " + cmp.Or(strings.Join(open, ", then "), "no place")
		}
		lines = append(lines, line)
	}
	f.Detail, f.Remedy = append(slices.Clone(f.Detail), lines...), append(slices.Clone(f.Remedy), remedies...)
}
