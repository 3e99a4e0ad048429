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
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
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
	// moved are the images of Moved.
	moved []movedImage
	// Findings are those of the forecast rules; Plan.WithForecast adds them to a
	// verdict.
	Findings []policy.Finding
}

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
		line += "; the drains were not simulated: pods or nodes could not be read"
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

// A Forecaster makes the forecast for a Plan.
type Forecaster struct {
	// Now is when the forecast is made: it decides what counts as recent.
	Now time.Time
	// Stop, if not nil, is asked now and then whether to give the simulation up.
	Stop func() bool
}

// recently is the time within which other changes of mirror objects are worth a word: MCO
// begins with the first node seconds after a change, and drains a few in that time.
const recently = 30 * time.Minute

// Of returns what the change does to the nodes, given the facts about registries; nil if no nodes
// are known.
func Of(p plan.ChangePlan, facts policy.Facts, by Forecaster) *Forecast {
	if p.Known.Rollout == nil || len(p.Known.Rollout.Nodes) == 0 || p.Unjudged {
		return nil
	}
	step := rollout.Step{
		Before: p.Change.Before, After: p.Change.After,
		BeforeRejected: p.RejectedBefore != nil, AfterRejected: p.Rejected != nil,
	}
	f := &Forecast{
		Forecast: rollout.NewForecast(*p.Known.Rollout, step.Decisions(p.Known.Rollout.Conditions())),
		Pins:     pinPulls(&p, facts),
		now:      by.Now,
	}
	f.Unknown = slices.DeleteFunc(slices.Clone(p.Known.Rollout.Unknown), func(resource string) bool { return !f.restsOn(resource) })
	if f.Drains() {
		f.Recent = recent(p.Change, by.Now)
		f.simulate(p.Plan, facts, by)
	}
	for _, r := range ForecastRules {
		f.Findings = append(f.Findings, r.find(p.Plan, f)...)
	}
	return f
}

// restsOn reports whether f may be another forecast with a resource that could not be read. It forecasts the worst of drains,
// so that a resource read for these alone counts only where there are some.
func (f *Forecast) restsOn(resource string) bool {
	switch resource {
	case nodes, "machineconfigpools":
		return true
	case "machineconfigurations", "clusteroperators": // for node actions, and whether MCO is busy
		return f.Reaches()
	default:
		return slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool { return p.Decision.Drains })
	}
}

// The resources without which a simulation says little.
const (
	pods    = "pods"
	nodes   = "nodes"
	budgets = "poddisruptionbudgets"
)

// simulate sets f.Simulation, unless what the simulation rests on is not known; and
// f.Lookups.
func (f *Forecast) simulate(p plan.Plan, facts policy.Facts, by Forecaster) {
	if slices.Contains(f.Unknown, pods) || slices.Contains(f.Unknown, nodes) {
		return
	}
	f.pulls = pulls(&p, facts)
	result := simulation.Run(simulation.Input{Cluster: *p.Known.Rollout, Forecast: f.Forecast, Pull: f.pulls.pull, OwnPolicies: p.OwnPolicies(), Now: by.Now, Stop: by.Stop})
	f.Simulation = &result
	f.countMoved(result.Moved)
}

// recent returns the names of the mirror objects that c does not change and that were
// created or changed shortly before now.
func recent(c policy.Change, now time.Time) []string {
	var names []string
	for _, o := range c.After.Objects {
		changed, ok := lastChange(o)
		if ok && now.Sub(changed) < recently && c.Before.Holds(mirrors.Put(o)) {
			names = append(names, mirrors.NameOf(o))
		}
	}
	slices.Sort(names)
	return names
}

// lastChange returns when o was last created or changed, as the API server has noted it.
func lastChange(o mirrors.Object) (time.Time, bool) {
	last := o.GetCreationTimestamp().Time
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Time.After(last) && m.Subresource == "" {
			last = m.Time.Time
		}
	}
	return last, !last.IsZero()
}

// pinPulls says which nodes pull what for the PinnedImageSets of the change, "" for none.
func pinPulls(p *plan.ChangePlan, facts policy.Facts) string {
	placed := plan.NewPinPlacements(p.Known.Rollout)
	before := map[plan.Pin]bool{}
	for _, s := range plan.PinnedSetsOf(p.Change.Before) {
		for _, pool := range placed.Pools(s) {
			for _, image := range s.Spec.PinnedImages {
				before[plan.Pin{Ref: string(image.Name), Pool: pool}] = true
			}
		}
	}
	var parts []string
	for _, pool := range placed.All {
		var size int64
		images, unknown := map[string]bool{}, 0
		for _, s := range plan.PinnedSetsOf(p.Change.After) {
			for _, image := range s.Spec.PinnedImages {
				ref := string(image.Name)
				if !rollout.TakesPinnedSet(pool, s) || before[plan.Pin{Ref: ref, Pool: pool.Name}] || images[ref] {
					continue
				}
				images[ref] = true
				of, _ := p.ImageSize(ref, facts)
				if size += of; of == 0 {
					unknown++
				}
			}
		}
		if nodes := len(p.Known.Rollout.PinNodes(pool)); len(images) > 0 && nodes > 0 {
			parts = append(parts, fmt.Sprintf("has %s of pool %s pull and hold %s (%s)", text.Count(nodes, "node"), pool.Name, text.Count(len(images), "image"), pulledSize(size, unknown)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ", without a drain"
}

func pulledSize(size int64, unknown int) string {
	switch {
	case unknown == 0:
		return text.Size(size) + " compressed"
	case size == 0:
		return "how much is not known"
	default:
		return fmt.Sprintf("%s compressed, and %s of unknown size", text.Size(size), text.Number(unknown))
	}
}
