package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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

// copyCommands returns the command that copies the image to where a node looks first, or says what it
// takes for nodes to be let in there.
func (a *assessment) copyCommands() []string {
	if a.brief {
		return nil
	}
	if host := a.mirrorsDeny(); host != "" {
		return []string{credentialsFor(host)}
	}
	targets := slices.DeleteFunc(a.newRoute.mirrors(), func(at place) bool { return at.fact.Presence == Denied })
	if len(targets) == 0 {
		targets = a.newRoute.open()
	}
	if len(targets) == 0 {
		return nil
	}
	return a.copyTo(targets[0].Location)
}

// ownPlace is what to do instead of a copy that would replace another image.
const ownPlace = "give each source a mirror, or a path at the mirror, of its own"

// copyTo returns the command that copies the image to a place, unless nodes look for another image
// there, too, and would get the copy.
func (a *assessment) copyTo(to mirrors.Location) []string {
	if a.brief {
		return nil
	}
	if slices.ContainsFunc(a.meetings, func(met meeting) bool { return met.at.Ref == to.Ref }) {
		return []string{ownPlace}
	}
	from := a.originBut(to)
	if from == to.Ref {
		return []string{"put the image back where it was: " + to.Ref}
	}
	flags := "--all --preserve-digests"
	if to.Insecure {
		flags += " --dest-tls-verify=false"
	}
	return []string{fmt.Sprintf("skopeo copy %s docker://%s docker://%s", flags, from, to.Ref)}
}

// originBut returns a place other than but that holds the image, or the source if no such
// place is known.
func (a *assessment) originBut(but mirrors.Location) string {
	for _, at := range slices.Concat(a.newRoute.open(), a.oldRoute.open()) {
		if at.Location != but && at.fact.Presence == Present {
			return at.Ref
		}
	}
	if n := len(a.After.Sources); n > 0 {
		return a.After.Sources[n-1].Ref // containers/image puts the source last
	}
	return a.Image.Ref
}
