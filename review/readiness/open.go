package readiness

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Open returns what keeps a list of the images of r, or of those that are missing, from being complete: unknown is what could not be
// determined, and later are the images among those that are missing which name others once they are copied.
func (r *Readiness) Open() (unknown, later []string) {
	missing := r.copies()
	isMissing := func(ref string) bool {
		return slices.ContainsFunc(missing, func(c policy.Copy) bool { return c.Image.Ref == ref })
	}
	for _, p := range r.Problems {
		if p.State == Unknown {
			unknown = append(unknown, text.Line(strings.Join(append([]string{p.Reason}, p.Detail...), ": ")))
		}
	}
	switch {
	case r.Version != "":
	case isMissing(r.Image):
		later = append(later, "the release image lists more images: copy it, then run this again")
	default:
		unknown = append(unknown, "which images the release consists of, as its release image could not be read")
	}
	return unknown, later
}
