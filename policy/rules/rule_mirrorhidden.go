package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// MirrorHidden: a narrower entry takes a wider mirror away. Only the entry with
// the longest prefix counts for an image, whichever kind of object made it, and
// an entry with mirrors of its own inherits none. So an ITMS for quay.io/team/app
// takes the digest mirror of an IDMS for quay.io/team away from that repository.
//
// It denies where the image is then not (or not verifiably) on its route, and
// warns where it still is.
func mirrorHidden(a *evidence.Case) (policy.Finding, bool) {
	if !a.Hidden || a.After.Err != nil {
		return policy.Finding{}, false
	}
	kept := a.After.Mirrors()
	lost := slices.DeleteFunc(a.Before.Mirrors(), func(l mirrors.Location) bool { return slices.Contains(kept, l) })
	if len(lost) == 0 {
		return policy.Finding{}, false
	}
	at := lost[max(0, slices.IndexFunc(lost, func(l mirrors.Location) bool { return a.Found.At(l).Presence == policy.Present }))]
	f := policy.Finding{
		Severity: policy.Warn,
		Reason:   fmt.Sprintf("the narrower source %s takes away its mirror from %s", a.After.Entry, a.Before.Entry),
		Detail:   append([]string{"loses " + text.ShortDigest(at.Ref) + ": " + policy.Describe(a.Found.At(at))}, a.Places()...),
		Remedy:   []string{fmt.Sprintf("give %s, in %s, the mirror %s", a.After.Entry, policy.KindFor(a.Image.Ref), mirrorFor(a, at))},
	}
	if !a.OutcomeAfter.Found() {
		f.Severity = a.UnlessBroken()
	}
	return f, true
}

// mirrorFor returns the mirror by which the new entry leads nodes to a place: they append to it what the name has behind the entry.
func mirrorFor(a *evidence.Case, place mirrors.Location) string {
	name := mirrors.RepositoryOf(evidence.NameOf(&a.After, 0))
	_, behind, _ := strings.Cut(name, strings.TrimPrefix(a.After.Entry, "*")) // a wildcard drops the host, but no port
	return strings.TrimSuffix(place.Repository(), behind)
}
