package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// MirrorHidden: a narrower entry takes a wider mirror away. Only the entry with
// the longest prefix counts for an image, whichever kind of object made it, and
// an entry with mirrors of its own inherits none. So an ITMS for quay.io/team/app
// takes the digest mirror of an IDMS for quay.io/team away from that repository.
//
// It denies where the image is then not (or not verifiably) on its route, and
// warns where it still is.
func mirrorHidden(v *view) (Finding, bool) {
	if v.HiddenBy == "" || v.After.Err != nil {
		return Finding{}, false
	}
	lost := v.lostMirrors()
	if len(lost) == 0 {
		return Finding{}, false
	}
	f := Finding{
		Severity: Warn,
		Reason:   fmt.Sprintf("the narrower source %s takes its mirror from %s away", v.HiddenBy, v.Before.Entry),
		Detail:   append([]string{"loses " + short(lost[0].Ref) + ": " + describe(v.found[lost[0]])}, v.places()...),
		Remedy: []string{fmt.Sprintf("give %s, in %s, the mirrors that %s has for pulls by %s",
			v.HiddenBy, kindFor(v.Image.Ref), v.Before.Entry, pullType(v.Image.Ref))},
	}
	if !v.after.Found() {
		f.Severity = v.unlessBroken()
	}
	return f, true
}

// lostMirrors returns the mirrors that the new route no longer has.
func (v *view) lostMirrors() []mirrors.Location {
	return slices.DeleteFunc(slices.Clone(v.beforeMirrors), func(l mirrors.Location) bool {
		return slices.Contains(v.mirrorPlaces, l)
	})
}

func pullType(ref string) string {
	if isDigest(ref) {
		return "digest"
	}
	return "tag"
}

func kindFor(ref string) string {
	if isDigest(ref) {
		return "an ImageDigestMirrorSet"
	}
	return "an ImageTagMirrorSet"
}
