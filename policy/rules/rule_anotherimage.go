package rules

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// AnotherImage: nodes may get another image than the one that is meant. A tag at a mirror is one image;
// where two sources share the mirror, or a wildcard leads all hosts to one repository, the last copy
// counts for both. And a short name is whatever the first registry has of that name.
//
// It denies where running images would change: the place serves another digest, which nodes would not get today either, or it
// could not be asked and the images that meet there run by different digests. It warns where that is not known, and where another
// registry is searched first for an image that does not run, or is the first to serve it. A place from which
// nodes get the image today as well is no fault of the change.
func anotherImage(a *evidence.Case) (policy.Finding, bool) {
	if mirrors.ByDigest(a.Image.Ref) || a.After.Err != nil {
		return policy.Finding{}, false
	}
	at, served := a.NewRoute.ServedFirst()
	before, servedBefore := a.OldRoute.ServedFirst()
	if !at.Fact.IsSparse() || len(at.Fact.Serves) > 0 || at.Fact.Guessed { // some nodes take it
		if f, is := anotherAt(a, at, before, served, servedBefore); is {
			return f, true
		}
	}
	if !at.Fact.IsSparse() {
		return policy.Finding{}, false
	}
	at, served = a.NewRoute.Served()
	before, servedBefore = a.OldRoute.Served()
	return anotherAt(a, at, before, served, servedBefore)
}

// anotherAt is anotherImage for the nodes that take the copy at a place, and before took that at another.
func anotherAt(a *evidence.Case, at, before evidence.Place, served, servedBefore bool) (policy.Finding, bool) {
	if served && servedBefore && mirrors.SamePlace(before.Ref, at.Ref) {
		return policy.Finding{}, false
	}
	if met, ok := meetingAt(a, at.Location, served); ok {
		return shared(a, met, at.Fact, served)
	}
	if served && (evidence.IsShort(a.After) || otherRegistry(a, at)) && slices.Index(a.Before.Open(), at.Location) != 0 {
		return firstOfName(a, at, before, servedBefore)
	}
	return policy.Finding{}, false
}

// firstOfName returns the finding about the first registry with an image of a short name, which nodes do not ask first today: it has another
// image than the one that runs or, where nothing is known to run, than nodes would get today.
func firstOfName(a *evidence.Case, at, before evidence.Place, servedBefore bool) (policy.Finding, bool) {
	f := policy.Finding{Severity: policy.Warn, Detail: a.Places(), Remedy: []string{"name the image in full where it is used, or have the registry that it comes from searched first"}}
	known, runs := at.Fact.HasDigest(), len(a.Running()) > 0
	other, first := otherRegistry(a, at), "another registry is searched first"
	if !other && a.BeforeUnknown {
		other, first = true, "another registry may be the first to serve it"
	}
	if !other && servedBefore && evidence.NameOf(&a.After, at.Candidate) != evidence.NameOf(&a.Before, before.Candidate) {
		other, first = true, "another registry is the first to serve it"
		f.Remedy = []string{"copy it to the mirrors of " + evidence.NameOf(&a.Before, before.Candidate) + ", from which nodes get it today, or name it in full where it is used"}
	}
	switch {
	case a.IsAnother(at.Fact):
		f.Severity, f.Reason = evidence.DenyUnless(a.FailsToday()), "the first registry with an image of that name has a different image than the one that runs"
		f.Detail = append(drifts(a, at.Ref, at.Fact), f.Detail...)
	case !other || runs && known || a.FailsToday().Holds:
		return policy.Finding{}, false
	case !runs && known && servedBefore && a.OutcomeBefore == evidence.Works && before.Fact.HasDigest():
		if policy.IsOneImage(at.Fact, before.Fact) {
			return policy.Finding{}, false
		}
		f.Reason = first + ", and has another image of that name"
		f.Detail = append([]string{fmt.Sprintf("%s: %s; today: %s", at.Ref, text.ShortDigest(at.Fact.Digest), text.ShortDigest(before.Fact.Digest))}, f.Detail...)
	default:
		f.Reason = first + ", and may have another image of that name"
	}
	return f, true
}

// otherRegistry reports whether nodes are to search other registries for a short name than today, or in another order, and at is of another than
// the first of today.
func otherRegistry(a *evidence.Case, at evidence.Place) bool {
	if !a.SearchesOthers() {
		return false
	}
	today := evidence.Searched(&a.Before)
	return len(today) > 0 && today[0] != evidence.NameOf(&a.After, at.Candidate)
}

// shared returns the finding about a place where nodes look for other images too.
func shared(a *evidence.Case, met evidence.Meeting, fact *policy.Fact, served bool) (policy.Finding, bool) {
	if !mayDiffer(a, met) || served && len(a.Running()) > 0 && fact.HasDigest() && !a.IsAnother(fact) {
		return policy.Finding{}, false
	}
	names := convert.Each(met.Others, func(other policy.Image) string { return other.Ref })
	f := policy.Finding{
		Severity: policy.Warn,
		Reason:   "its new place holds one image, and nodes look there for " + text.Names(names, plan.MaxNamed) + " as well",
		Detail:   a.Places(),
		Remedy:   []string{ownPlace},
	}
	switch {
	case served && a.IsAnother(fact):
		f.Severity, f.Detail = evidence.DenyUnless(a.FailsToday(), a.GetsTheSame(fact)), append(drifts(a, met.At.Ref, fact), f.Detail...)
	case !served && certainlyDiffers(a, met):
		f.Severity = evidence.DenyUnless(a.FailsToday())
	}
	return f, true
}

// meetingAt returns where nodes look for other images too: at the place that serves the image or, where
// that is not known, at one that may.
func meetingAt(a *evidence.Case, l mirrors.Location, served bool) (evidence.Meeting, bool) {
	for _, met := range a.Rarely().Meetings {
		if served && mirrors.SamePlace(met.At.Ref, l.Ref) || !served && mayServe(a, met.At) {
			return met, true
		}
	}
	return evidence.Meeting{}, false
}

func mayServe(a *evidence.Case, l mirrors.Location) bool {
	return slices.ContainsFunc(a.NewRoute.OpenPlaces(), func(at evidence.Place) bool {
		p := at.Fact.Presence
		return at.Location == l && (p == policy.Unknown || p == policy.Unreachable || p == policy.Inconclusive)
	})
}

// mayDiffer reports whether the images that meet are not known to be one.
func mayDiffer(a *evidence.Case, met evidence.Meeting) bool {
	mine := a.Running()
	return len(mine) != 1 || slices.ContainsFunc(met.Others, func(other policy.Image) bool { return !slices.Equal(evidence.DigestsOf(other), mine) })
}

// certainlyDiffers reports whether the image runs by no digest by which one of the others does.
func certainlyDiffers(a *evidence.Case, met evidence.Meeting) bool {
	mine := a.Running()
	return len(mine) > 0 && slices.ContainsFunc(met.Others, func(other policy.Image) bool {
		theirs := evidence.DigestsOf(other)
		return len(theirs) > 0 && !slices.ContainsFunc(theirs, func(digest string) bool { return slices.Contains(mine, digest) })
	})
}

// drifts says which digest a place has, and which runs.
func drifts(a *evidence.Case, at string, fact *policy.Fact) []string {
	return []string{fmt.Sprintf("%s: %s; running: %s", at, text.ShortDigest(fact.Digest), text.ShortDigest(a.Running()[0]))}
}
