// Package forecast decides what a change does to nodes, by package rollout, and whether its rollout gets through,
// by its simulation: with the findings of the rules about that. Of the rooms it imports policy, settings, evidence and plan.
package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// A Forecast is the effect of a change on the nodes, with the rules' findings about it.
type Forecast struct {
	rollout.Forecast
	// Simulation is the rollout played to its end; nil if no node is drained, or if too little
	// is known of the cluster (Unknown).
	Simulation *simulation.Result
	// Unknown names what could not be read of the cluster and may make the forecast another one.
	Unknown []string
	// Recent are the other mirror objects that were changed shortly before, sorted by name. A
	// change that drains would have cost nothing more together with them.
	Recent []string
	// Moved counts the images of pods that drains evict and that the change does not reroute, if
	// such a pod may come to a node that has to pull.
	Moved policy.MovedCounts
	// Pins says which nodes pull what for the PinnedImageSets of the change, as a clause without its subject; "" for none.
	Pins  string
	now   time.Time
	pulls *pullOutcomes
	// later is the simulation once the pools go on that are held, which says by what; nil if none is.
	later *simulation.Result
	held  []string
	// moved are the images of Moved; lost are those of all pods that drains evict, rerouted or not, that nodes could not pull.
	moved, lost []movedImage
	// Findings are those of the forecast rules; Plan.WithForecast adds them to a
	// verdict.
	Findings []policy.Finding
}

// The resources without which a simulation says little.
const (
	pods    = "pods"
	nodes   = "nodes"
	budgets = "poddisruptionbudgets"
)

// Reaches reports whether the change makes MCO do something on nodes, now or once their pool
// is no longer paused; of a hosted cluster it is not known, and taken to be so.
func (f *Forecast) Reaches() bool {
	return f.Hosted || slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool {
		return p.Part == rollout.Takes || p.Part == rollout.Paused || p.Part == rollout.Stopped || p.Part == rollout.Unreadable
	})
}

// String returns the forecast in one line: what happens on which nodes, how long it takes,
// and what else is worth knowing before.
func (f *Forecast) String() string {
	line := f.Forecast.String()
	switch rest, still := strings.CutPrefix(line, "reaches no node"); {
	case f.Pins == "":
	case still:
		line = f.Pins + rest
	default:
		line += "; it " + f.Pins
	}
	switch n := len(f.Recent); {
	case n == 1:
		line += fmt.Sprintf("; %s was changed in the last 30 minutes: apply changes together to drain once", f.Recent[0])
	case n > 1:
		line += fmt.Sprintf("; %s other mirror objects were changed in the last 30 minutes: apply changes together to drain once", text.Number(n))
	}
	switch {
	case !f.Drains():
	case f.Simulation == nil:
		line += "; the drains were not simulated: pods could not be read"
	case slices.Contains(f.Unknown, pods) || slices.Contains(f.Unknown, nodes):
		line += "; the drains were simulated with what was last read of pods and nodes"
	case slices.Contains(f.Unknown, budgets):
		line += "; the drains were simulated without budgets, which could not be read"
	case f.Simulation.Partial:
		line += "; the drains were not simulated to the end: time was up"
	}
	return line + f.Moved.String()
}

// Drains reports whether nodes of a pool that takes part are drained.
func (f *Forecast) Drains() bool {
	return slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool { return p.Part == rollout.Takes && p.Decision.Drains })
}

// simulations are those that were made: of what happens at once, and of what does later.
func (f *Forecast) simulations() []*simulation.Result {
	return slices.DeleteFunc([]*simulation.Result{f.Simulation, f.later}, func(s *simulation.Result) bool { return s == nil })
}

// whenHeld says what has to be over before pods are evicted that only a pool evicts that is held, nothing of others.
func (f *Forecast) whenHeld(later bool) []string {
	if !later {
		return nil
	}
	return []string{"not at once: " + text.Names(f.held, policy.MaxConsumers)}
}

// unproved says why stalls may be missing in the simulation, "" if none is, and what would show whether they are.
func (f *Forecast) unproved() (why, remedy string) {
	switch {
	case slices.Contains(f.Unknown, budgets):
		return "budgets could not be read", "or have poddisruptionbudgets read (by the right to list them, or in the dump), which may show that no drain waits for it"
	case slices.ContainsFunc(f.simulations(), func(s *simulation.Result) bool { return s.Partial }):
		return "time was up before the drains were simulated to the end", "or try again when fewer changes are under review, as then there may be time to show that no drain waits for it"
	default:
		return "", ""
	}
}
