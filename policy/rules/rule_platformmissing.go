package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// PlatformMissing: the copy that nodes would get is not for all of them. Either it is an
// index that lacks manifests that it lists, as left by tools that were told to copy one
// architecture: a node of another architecture gets the index, which ends its search for a
// place (newImageSource in containers/image docker/docker_image_src.go), and then a 404 for its own part.
// Or, under a tag, it is an image of one platform, or a smaller index, where the old place
// serves an index of several.
//
// A platform counts as lost if nodes have it and the old place serves it, or if what the old
// place serves could not be determined and the copy is not known to be what runs. An image
// that never was for a platform is no fault of the change. An image that cannot be pulled
// today loses no platform, nor does one that nodes still get wherever they may get it today.
func platformMissing(a *evidence.Case) (policy.Finding, bool) {
	at, ok := a.NewRoute.Served()
	fact := at.Fact
	if !ok || fact.IsForAll() {
		return policy.Finding{}, false
	}
	lost, proved := lostPlatforms(a, fact)
	unknown := !proved && mayLoseAny(a, fact)
	if len(lost) == 0 && !unknown {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Reason: "the copy that nodes would get lacks its part for " + strings.Join(lost, ", "),
		Detail: a.Places(),
	}
	if mayBeWhole(a) {
		f.Copy = copyTo(a, at.Location)
	} else {
		f.Remedy = []string{"mirror it again, with all of its parts"}
	}
	switch {
	case unknown:
		f.Reason = "it is not known for which platforms nodes are, nor for which the image is: the copy that they would get may not be for all"
		f.Remedy = []string{"let the guard know the nodes: add them to a dump (oc get nodes -o yaml), or get the right to list them"}
	case !proved:
		f.Reason = fmt.Sprintf("the copy that nodes would get is not for %s, and it is not known whether the image is", strings.Join(lost, ", "))
		f.Remedy = []string{"if the image never was, set severities in the guard's configuration: {PlatformMissing: warn}"}
	}
	f.Severity = evidence.DenyUnless(a.FailsToday(), a.KeepsPlatforms(), a.LacksTheSame(lost), isTheImage(a, at, proved))
	return f, true
}

// mayBeWhole reports whether a place has a copy for all nodes, or may have, asked or blocked. Else a copy brings
// what is there, or fails.
func mayBeWhole(a *evidence.Case) bool {
	return slices.ContainsFunc(slices.Concat(a.OldRoute.Facts, a.NewRoute.Facts), func(f *policy.Fact) bool {
		return f.Presence == policy.Present && f.IsWhole() || f.IsUndetermined()
	})
}

// isTheImage is proof that at is not a copy but the source itself, and that nodes are not known to get
// more elsewhere today. It is not enough for protected images: a mirror that does not answer now may
// have had more (docs/truth.md).
func isTheImage(a *evidence.Case, at evidence.Place, lostForSure bool) evidence.Proof {
	return evidence.Proof{Holds: !at.Mirror && !lostForSure && !a.Protected}
}

// lostPlatforms returns the platforms of nodes for which fact, the one about the place that
// serves the image on the new route, has none, but for those that the image never had;
// and whether it is proved that the image has them.
func lostPlatforms(a *evidence.Case, fact *policy.Fact) (lost []string, proved bool) {
	switch {
	case len(fact.Missing) > 0:
		return fact.Missing, true // the index itself lists them
	case !a.Platforms:
		return nil, false
	}
	before, served := a.ServedOn(&a.OldRoute)
	today, known := a.OldRoute.Serves()
	if served && known && (before.Serves != nil || before.Lacks != nil) {
		return slices.DeleteFunc(today, func(p string) bool {
			return slices.Contains(fact.Serves, p) || !a.Site.MayRunOn(a.Image.Consumers, p)
		}), true
	}
	if a.FailsToday().Holds || isAllThatRuns(a, fact) {
		return nil, false
	}
	return fact.Lacks, false
}

// mayLoseAny reports whether a platform may be lost although none is known to be: it is not known for which nodes are, nor what the old
// place serves.
func mayLoseAny(a *evidence.Case, fact *policy.Fact) bool {
	before, served := a.ServedOn(&a.OldRoute)
	return a.Site.IsUnknown() && fact.Guessed && a.Platforms && (!served || before.Serves == nil) && !a.FailsToday().Holds && !isAllThatRuns(a, fact)
}

// isAllThatRuns reports whether fact is about the very index that runs: then the image was never for
// platforms that it does not list. Otherwise what runs is only a sample: that nodes of one platform run
// a single image, or a part of a smaller index, does not show that there was nothing for the others.
func isAllThatRuns(a *evidence.Case, fact *policy.Fact) bool {
	running := a.Running()
	return slices.Contains(policy.IndexTypes, fact.MediaType) && slices.Contains(running, fact.Digest) &&
		!slices.ContainsFunc(running, func(digest string) bool {
			return digest != fact.Digest && !slices.Contains(fact.Children, digest)
		})
}
