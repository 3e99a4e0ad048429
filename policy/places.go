package policy

import (
	"cmp"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// places returns a line for each place of the new route, in order, with what was found there.
// The finding names the image in full, so digests are shortened here.
func (a *assessment) places() []string {
	if a.brief {
		return nil
	}
	var lines []string
	for k, s := range a.After.Sources {
		found := describe(a.newRoute.facts[k])
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

// describe says what a fact means, in the words of its Detail if it has any.
func describe(f *Fact) string {
	switch f.Presence {
	case Present:
		if f.Assumed != "" {
			found := *f
			found.Assumed = ""
			return "assumed, as " + f.Assumed + "; there it was " + describe(&found)
		}
		if len(f.Missing) > 0 {
			found := "found, without its part for " + strings.Join(f.Missing, ", ")
			if f.Detail != "" {
				found += "; " + f.Detail
			}
			return found
		}
		return "found"
	case Absent:
		return cmp.Or(f.Detail, "not found")
	case Denied:
		return cmp.Or(f.Detail, "access denied")
	case Unreachable:
		return cmp.Or(f.Detail, "could not be reached")
	case Mismatch:
		return cmp.Or(f.Detail, "answers with something else")
	case Incomplete:
		return cmp.Or(f.Detail, "lacks some of its blobs")
	default:
		return cmp.Or(f.Detail, "not asked")
	}
}
