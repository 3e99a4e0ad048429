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
	// Besides are drains that may come as well, or later, and Later is the simulation of all; nil if there are none.
	Besides []rollout.Besides
	Later   *simulation.Result
	// moved are the images of Moved, those of protected namespaces first; doubtful are those of all pods that drains evict, rerouted or not,
	// that isDoubtful is about, in each simulation and for each namespace and pool.
	moved, doubtful []movedImage
	// Findings are those of the forecast rules; Plan.WithForecast adds them to a
	// verdict.
	Findings []policy.Finding
}

// The resources without which a simulation says little.
const (
	pods    = "pods"
	nodes   = "nodes"
	budgets = "poddisruptionbudgets"
	// machines says what MCO does for a file; by default, only some changes of registries.conf drain.
	machines = "machineconfigurations"
)

// Reaches reports whether the change makes MCO do something on nodes, now or once their pool
// is no longer paused; of a hosted cluster it is not known, and taken to be so.
func (f *Forecast) Reaches() bool {
	return f.Hosted || f.Besides != nil || slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool {
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
	switch simulated := f.simulations(); {
	case !f.Drains() && f.Besides == nil:
	case len(simulated) == 0:
		line += "; the drains were not simulated: pods could not be read"
	case slices.ContainsFunc(simulated, func(s *simulation.Result) bool { return s.Partial }):
		line += "; the drains were not simulated to the end: time was up"
	case slices.Contains(f.Unknown, pods) || slices.Contains(f.Unknown, nodes):
		line += "; the drains were simulated with what was last read of pods and nodes"
	case slices.Contains(f.Unknown, budgets):
		line += "; the drains were simulated without budgets, which could not be read"
	}
	return line + f.Moved.String()
}

// Drains reports whether nodes of a pool that takes part are drained.
func (f *Forecast) Drains() bool {
	return slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool { return p.Part == rollout.Takes && p.Decision.Drains })
}

// simulations are those that were made: of what happens at once, and of what may come besides.
func (f *Forecast) simulations() []*simulation.Result {
	return slices.DeleteFunc([]*simulation.Result{f.Simulation, f.Later}, func(s *simulation.Result) bool { return s == nil })
}

// whenLater says of which drains besides a pod of a simulation may be, nothing of those that come at once.
func (f *Forecast) whenLater(of *simulation.Result, pool string) []string {
	var why []string
	for _, b := range f.Besides {
		if of == f.Later && (b.Pool == pool || pool == "") {
			why = append(why, b.Why)
		}
	}
	return text.First(why, policy.MaxConsumers, "pool")
}

// unproved says why stalls may be missing in a simulation, "" if none is, and what would show whether they are.
func (f *Forecast) unproved(of *simulation.Result) (why, remedy string) {
	switch {
	case slices.Contains(f.Unknown, budgets):
		return "budgets could not be read", "or have poddisruptionbudgets read (by the right to list them, or in the dump), which may show that no drain waits for it"
	case of.Partial:
		return "time was up before the drains were simulated to the end", "or try again when fewer changes are under review, as then there may be time to show that no drain waits for it"
	default:
		return "", ""
	}
}

// maxMoved is how many images that do not decide whether the rollout stalls are looked up.
const maxMoved = 500

// isLookedUp reports whether m is among these, or rerouted by the change, and so looked up for that.
func (f *Forecast) isLookedUp(m movedImage) bool {
	return !m.Settled || len(f.moved) <= maxMoved || byRank(m, f.moved[maxMoved-1]) <= 0
}
