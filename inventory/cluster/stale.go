package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	// toleratedFailure is how long a source may fail before a review stops waiting for it.
	toleratedFailure = 3 * time.Second
	// lastTry is how long a review waits at least, as a source that has failed for long may be
	// back. Three of them fit into the time for a review.
	lastTry = time.Second
	// hurryEvery is how often sources that fail are asked again meanwhile.
	hurryEvery = 50 * time.Millisecond
)

// Await waits until sources that fail are read again. It gives up a source that has failed for some
// seconds and fails again; Gaps then lists it, or Rollout as unknown.
func (c *Inventory) Await(ctx context.Context) {
	start := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		short, cancel := context.WithTimeout(ctx, time.Until(deadline)/4) // the rest is for the review
		defer cancel()
		ctx = short
	}
	ticker := time.NewTicker(hurryEvery)
	defer ticker.Stop()
	for c.hurry(start) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// hurry has sources that fail asked again, and reports whether there is one worth the wait.
func (c *Inventory) hurry(start time.Time) (waits bool) {
	for _, s := range c.sources {
		status := s.Status()
		if !status.IsBlind() {
			continue
		}
		s.Hurry()
		waits = waits || time.Since(start) < lastTry || time.Since(status.Failing) < toleratedFailure && status.Err != nil
	}
	return waits
}

// Gaps returns the sources of images that fail or are stale, in their order, and those that may not be read, nodes
// and pools included. The images that sources last named are still among Images. A resource that the cluster does
// not serve is not a gap.
//
// To get both, call Gaps before Images: a source that comes back in between is then
// reported as a gap without need, instead of not at all.
func (c *Inventory) Gaps() []policy.Gap {
	var gaps []policy.Gap
	for _, s := range c.sources {
		switch status := s.Status(); {
		case s.kind == "":
		case status.IsForbidden():
			gaps = append(gaps, policy.Gap{
				Source: status.Name, Kind: s.kind, Detail: "no permission to read them", Unread: true, Excused: s.isExcused(),
				Remedy: "get the right to list " + status.Name + ", then try again",
			})
		case status.IsBlind():
			gaps = append(gaps, policy.Gap{Source: status.Name, Kind: s.kind, Detail: status.Staleness()})
		}
	}
	return gaps
}

// podsListed reports whether all pods are known, but for what Gaps say.
func (c *Inventory) podsListed() bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return s.kind == "Pod" && s.Status().IsReadable() })
}

// isExcused reports whether a change is judged without a source that may not be read: any but the workloads of every cluster.
func (s *source) isExcused() bool { return s.isOptional || s.isConfigMap || s.kind == policy.NodeKind }

// Notes lists what the inventory lacks: a line for the sources that fail or are stale, one for each
// that has never been read, and one for those that may not be read. A kind that the cluster does not
// serve is no gap, and only in Sources: hardly any cluster has HyperShift, and saying so with each
// answer would teach people to ignore warnings.
func (c *Inventory) Notes() []string {
	notes, forbidden := c.applied.notes(), []string(nil)
	var stale []follow.Status
	for _, s := range c.sources {
		status := s.Status()
		switch {
		case status.IsForbidden() && !s.isSecret:
			forbidden = append(forbidden, status.Name)
		case status.IsBlind():
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
		notes = append(notes, "no permission to read "+text.Names(forbidden, namedSources)+"; what is there is unknown")
	}
	return append(notes, convert.Each(c.Unsearched(), policy.Gap.String)...)
}

// Unsearched is as in plan.Cluster. It is to be called before Images, as Gaps is.
func (c *Inventory) Unsearched() []policy.Gap {
	if c.survey == nil {
		return nil
	}
	return c.survey.gaps()
}

// staleNote returns one line for all: usually the API server is away, and they share the
// reason. The reason given is that of the source that has been stale for longest.
func staleNote(stale []follow.Status) string {
	oldest := slices.MinFunc(stale, func(a, b follow.Status) int { return a.Heard.Compare(b.Heard) })
	names := convert.Each(stale, func(s follow.Status) string { return s.Name })
	return text.Names(names, namedSources) + " " + oldest.Staleness()
}

// namedSources is how many sources a note names: a line has 120 characters.
const namedSources = 2
