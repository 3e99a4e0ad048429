package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Gaps returns the stale sources of images, in their order. The images they last
// named are still among Images. What the cluster does not serve is no gap.
//
// Who wants both asks for Gaps first: a source that comes back in between has then
// been called a gap without need, rather than not at all.
func (c *Inventory) Gaps() []policy.Gap {
	var gaps []policy.Gap
	for _, s := range c.sources {
		if status := s.Status(); status.Stale && s.kind != "" {
			gaps = append(gaps, policy.Gap{Source: status.Name, Kind: s.kind, Detail: status.Staleness()})
		}
	}
	return gaps
}

// Notes says on what the inventory does not rest: a line for the sources that are
// stale, one for each that has never been read, and one for those that may not be
// read. What the cluster does not serve is no gap, and found in Sources: hardly a
// cluster has HyperShift, and to say so with each answer would teach people not to
// read warnings.
func (c *Inventory) Notes() []string {
	notes, forbidden := c.applied.notes(), []string(nil)
	var stale []follow.Status
	for _, s := range c.sources {
		status := s.Status()
		switch {
		case status.IsForbidden() && !s.isSecret:
			forbidden = append(forbidden, status.Name)
		case status.Stale:
			stale = append(stale, status)
		case !status.Synced && status.Err != nil:
			notes = append(notes, fmt.Sprintf("%s could not be read: %v", status.Name, status.Err))
		}
	}
	if len(stale) > 0 {
		notes = append(notes, staleNote(stale))
	}
	if len(forbidden) > 0 {
		slices.Sort(forbidden)
		notes = append(notes, "no permission to read "+firstOf(forbidden, namedSources)+"; what is there is unknown")
	}
	if c.survey != nil {
		notes = append(notes, c.survey.notes()...)
	}
	return notes
}

// staleNote is one line for all: mostly the API server is away, and they share the
// reason. The reason told is that of the one that is stale for longest.
func staleNote(stale []follow.Status) string {
	oldest := slices.MinFunc(stale, func(a, b follow.Status) int { return a.Heard.Compare(b.Heard) })
	names := make([]string, len(stale))
	for i, s := range stale {
		names[i] = s.Name
	}
	return firstOf(names, namedSources) + " " + oldest.Staleness()
}

// namedSources is how many sources a note names: a line has 120 characters.
const namedSources = 2

// firstOf lists the first n of names, in their order, and counts the others.
func firstOf(names []string, n int) string {
	text := strings.Join(names[:min(n, len(names))], ", ")
	if more := len(names) - n; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
