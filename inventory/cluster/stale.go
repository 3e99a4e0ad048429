package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
			gaps = append(gaps, policy.Gap{Source: status.Name, Kind: s.kind, Detail: status.staleness()})
		}
	}
	return gaps
}

// staleness says for how long a stale source has been so, and why.
func (s SourceStatus) staleness() string {
	age := time.Since(s.Heard).Round(time.Second)
	if s.Err == nil {
		return fmt.Sprintf("not heard from for %s", age)
	}
	return fmt.Sprintf("out of reach for %s: %v", age, s.Err)
}

// Notes says on what the inventory does not rest: a line for the sources that are
// stale, one for each that has never been read, and one for those that may not be
// read. What the cluster does not serve is no gap, and found in Sources: hardly a
// cluster has HyperShift, and to say so with each answer would teach people not to
// read warnings.
func (c *Inventory) Notes() []string {
	notes, forbidden := c.applied.notes(), []string(nil)
	var stale []SourceStatus
	for _, s := range c.sources {
		status := s.Status()
		switch {
		case apierrors.IsForbidden(status.Lacking) && !s.isSecret():
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
func staleNote(stale []SourceStatus) string {
	oldest := slices.MinFunc(stale, func(a, b SourceStatus) int { return a.Heard.Compare(b.Heard) })
	names := make([]string, len(stale))
	for i, s := range stale {
		names[i] = s.Name
	}
	return firstOf(names, namedSources) + " " + oldest.staleness()
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
