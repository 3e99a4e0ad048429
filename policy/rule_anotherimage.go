package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// AnotherImage: nodes may get another image than the one that is meant. A tag at a mirror is one image;
// where two sources share the mirror, or a wildcard leads all hosts to one repository, the last copy
// counts for both. And a short name is whatever the first registry has of that name.
//
// It denies where running images would change: the place serves another digest, or it could not be asked and
// the images that meet there run by different digests. It warns where that is not known, and where another
// registry is searched first for an image that does not run. A place from which nodes get the image today as
// well is no fault of the change.
func anotherImage(a *assessment) (Finding, bool) {
	if mirrors.ByDigest(a.Image.Ref) || a.After.Err != nil {
		return Finding{}, false
	}
	at, served := a.newRoute.served()
	before, servedBefore := a.oldRoute.served()
	if served && servedBefore && mirrors.SamePlace(before.Ref, at.Ref) {
		return Finding{}, false
	}
	if met, ok := a.meetingAt(at.Location, served); ok {
		return a.shared(met, at.fact, served)
	}
	if served && (isShort(a.After) || a.otherRegistry(at)) && slices.Index(a.Before.Open(), at.Location) != 0 {
		return a.firstOfName(at, before, servedBefore)
	}
	return Finding{}, false
}

// firstOfName returns the finding about the first registry with an image of a short name, which nodes do not ask first today: it has another
// image than the one that runs or, where nothing is known to run, than nodes would get today.
func (a *assessment) firstOfName(at, before place, servedBefore bool) (Finding, bool) {
	f := Finding{Severity: Warn, Detail: a.places(), Remedy: []string{"name the image in full where it is used, or have the registry that it comes from searched first"}}
	known, runs := at.fact.hasDigest(), len(a.running()) > 0
	switch {
	case a.isAnother(at.fact):
		f.Severity, f.Reason = denyUnless(a.failsToday()), "the first registry with an image of that name has a different image than the one that runs"
		f.Detail = append(a.drifts(at.Ref, at.fact), f.Detail...)
	case !a.otherRegistry(at) || runs && known || a.failsToday().holds:
		return Finding{}, false
	case !runs && known && servedBefore && a.before == Works && before.fact.hasDigest():
		if isOneImage(at.fact, before.fact) {
			return Finding{}, false
		}
		f.Reason = "another registry is searched first, and has another image of that name"
		f.Detail = append([]string{fmt.Sprintf("%s: %s; today: %s", at.Ref, text.ShortDigest(at.fact.Digest), text.ShortDigest(before.fact.Digest))}, f.Detail...)
	default:
		f.Reason = "another registry is searched first, and may have another image of that name"
	}
	return f, true
}

// otherRegistry reports whether nodes are to search other registries for a short name than today, or in another order, and at is of another than
// the first of today.
func (a *assessment) otherRegistry(at place) bool {
	if !a.searchesOthers() {
		return false
	}
	today := searched(&a.Before)
	return len(today) > 0 && today[0] != nameOf(&a.After, at.Candidate)
}

// searchesOthers reports whether nodes will search other registries for a short name than today, or in another order.
func (r *Reroute) searchesOthers() bool {
	if r.BeforeUnknown || !isShort(r.Before) && !isShort(r.After) && nameOf(&r.Before, 0) == nameOf(&r.After, 0) {
		return false
	}
	return !slices.Equal(searched(&r.Before), searched(&r.After))
}

// wantsToday reports whether it has to be known what nodes get today: they will search other registries for a tag, and no pod says which image
// it stands for.
func (r *Reroute) wantsToday() bool {
	return r.searchesOthers() && !mirrors.ByDigest(r.Image.Ref) && len(digestsOf(r.Image)) == 0
}

// searched returns the full names that nodes try for a short one.
func searched(r *mirrors.Route) (names []string) {
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() {
			names = append(names, nameOf(r, s.Candidate))
		}
	}
	return slices.Compact(names)
}

// nameOf returns the full name of a candidate for a short one.
func nameOf(r *mirrors.Route, candidate int) string {
	for k := range r.Sources {
		if s := &r.Sources[k]; !s.Mirror && s.Candidate == candidate {
			return s.Ref
		}
	}
	return ""
}

// hasDigest reports whether it is known which image f is about.
func (f *Fact) hasDigest() bool { return f.Digest != "" && !f.unread() }

// isOneImage reports whether two places have the same, or one a part of what the other has.
func isOneImage(a, b *Fact) bool {
	return a.Digest == b.Digest || slices.Contains(a.Children, b.Digest) || slices.Contains(b.Children, a.Digest)
}

// shared returns the finding about a place where nodes look for other images too.
func (a *assessment) shared(met meeting, fact *Fact, served bool) (Finding, bool) {
	if !a.mayDiffer(met) || served && len(a.running()) > 0 && fact.hasDigest() && !a.isAnother(fact) {
		return Finding{}, false
	}
	names := convert.Each(met.others, func(other Image) string { return other.Ref })
	f := Finding{
		Severity: Warn,
		Reason:   "its new place holds one image, and nodes look there for " + text.Names(names, maxNamed) + " as well",
		Detail:   a.places(),
		Remedy:   []string{ownPlace},
	}
	switch {
	case served && a.isAnother(fact):
		f.Severity, f.Detail = denyUnless(a.failsToday()), append(a.drifts(met.at.Ref, fact), f.Detail...)
	case !served && a.certainlyDiffers(met):
		f.Severity = denyUnless(a.failsToday())
	}
	return f, true
}

// meetingAt returns where nodes look for other images too: at the place that serves the image or, where
// that is not known, at one that may.
func (a *assessment) meetingAt(l mirrors.Location, served bool) (meeting, bool) {
	for _, met := range a.rarely().meetings {
		if served && mirrors.SamePlace(met.at.Ref, l.Ref) || !served && a.mayServe(met.at) {
			return met, true
		}
	}
	return meeting{}, false
}

func (a *assessment) mayServe(l mirrors.Location) bool {
	return slices.ContainsFunc(a.newRoute.open(), func(at place) bool {
		p := at.fact.Presence
		return at.Location == l && (p == Unknown || p == Unreachable || p == Inconclusive)
	})
}

// isAnother reports whether the image runs, and fact is known to be about another.
func (a *assessment) isAnother(fact *Fact) bool {
	running := a.running()
	return len(running) > 0 && fact.hasDigest() && !slices.ContainsFunc(running, func(digest string) bool {
		return digest == fact.Digest || slices.Contains(fact.Children, digest)
	})
}

// mayDiffer reports whether the images that meet are not known to be one.
func (a *assessment) mayDiffer(met meeting) bool {
	mine := a.running()
	return len(mine) != 1 || slices.ContainsFunc(met.others, func(other Image) bool { return !slices.Equal(digestsOf(other), mine) })
}

// certainlyDiffers reports whether the image runs by no digest by which one of the others does.
func (a *assessment) certainlyDiffers(met meeting) bool {
	mine := a.running()
	return len(mine) > 0 && slices.ContainsFunc(met.others, func(other Image) bool {
		theirs := digestsOf(other)
		return len(theirs) > 0 && !slices.ContainsFunc(theirs, func(digest string) bool { return slices.Contains(mine, digest) })
	})
}

// drifts says which digest a place has, and which runs.
func (a *assessment) drifts(at string, fact *Fact) []string {
	return []string{fmt.Sprintf("%s: %s; running: %s", at, text.ShortDigest(fact.Digest), text.ShortDigest(a.running()[0]))}
}
