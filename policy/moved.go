package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// MovedCounts are the numbers of images of evicted pods that the change does not reroute: of all, of
// those that nodes certainly cannot pull (Lost), of those that they may not be able to pull (Open), and
// of those that a mirroring still to be done would copy (Assumed).
type MovedCounts struct{ All, Lost, Open, Assumed int }

// String continues a forecast, "" if there is nothing to add.
func (c MovedCounts) String() string {
	n, what := c.Lost, "cannot be pulled"
	if n == 0 {
		n, what = c.Open, "could not be verified"
	}
	switch {
	case n == 0:
		return ""
	case c.All == 1:
		return "; the other image that drains move " + what
	default:
		return fmt.Sprintf("; of %s that drains move, %s %s", text.Count(c.All, "other image"), text.Number(n), what)
	}
}

// A movedImage is one of MovedCounts, with a pod that may have to pull it.
type movedImage struct {
	*assessment
	by simulation.Moved
}

// countMoved sets f.Moved and f.moved: images of protected namespaces first.
func (f *Forecast) countMoved(all []simulation.Moved) {
	counted := map[*assessment]bool{}
	for _, m := range all {
		a := f.pulls.assess(m.Image, m.Namespace, m.Pool)
		if a == nil || !a.settled || counted[a] {
			continue
		}
		counted[a] = true
		f.Moved.All++
		switch a.pullAfter() {
		case rollout.PullFails:
			f.Moved.Lost++
		case rollout.PullUnknown:
			f.Moved.Open++
		default:
			if a.assumption() != "" {
				f.Moved.Assumed++
			}
		}
		f.moved = append(f.moved, movedImage{a, m})
	}
	slices.SortStableFunc(f.moved, func(a, b movedImage) int {
		return cmp.Or(cmp.Compare(f.pulls.plan.settings.Rank(a.Image), f.pulls.plan.settings.Rank(b.Image)), cmp.Compare(a.Image.Ref, b.Image.Ref))
	})
}

// maxMoved is how many images that do not decide whether the rollout stalls are looked up.
const maxMoved = 500

// Lookups returns what has yet to be looked up about images that pods have to pull again when
// nodes are drained, whether the change reroutes them or not: those first for which the rollout
// may stall. The caller proceeds as with Plan.Lookups, and then has the forecast made again.
func (f *Forecast) Lookups(facts Facts) []mirrors.Location {
	if f.Simulation == nil {
		return nil
	}
	f.pulls.facts = facts
	q := &lookups{facts: facts}
	for _, stall := range f.Simulation.Stalls {
		f.pulls.lookUp(q, stall.Image)
		for _, missing := range stall.Missing {
			f.pulls.lookUp(q, missing.Image)
		}
	}
	if len(q.list) > 0 {
		return q.list
	}
	for _, m := range f.moved[:min(len(f.moved), maxMoved)] {
		f.pulls.lookups(q, m.assessment)
	}
	return q.list
}

func (p *pullOutcomes) lookUp(q *lookups, image string) {
	if image == "" {
		return
	}
	for _, a := range p.assessedAs(image) {
		p.lookups(q, a)
	}
}
