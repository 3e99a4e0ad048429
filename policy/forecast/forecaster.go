package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// A Forecaster makes the forecast for a Plan.
type Forecaster struct {
	// Now is when the forecast is made: it decides what counts as recent.
	Now time.Time
	// Stop, if not nil, is called as a simulation begins, and what it returns is asked now and then whether to give that up. Then
	// the one of Before, if not nil, stands: the forecast of the same plan when less was known of registries.
	Stop   func() func() bool
	Before *Forecast
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
	var released rollout.Forecast
	mayDrain := !p.Known.Rollout.IsSingleNode() // as rollout.Conditions.SingleNode says
	released, f.Besides = f.Released(mayDrain && slices.Contains(p.Known.Rollout.Unknown, machines), mayDrain && p.BeforeUnknown)
	f.Unknown = slices.DeleteFunc(slices.Clone(p.Known.Rollout.Unknown), func(resource string) bool { return !f.restsOn(resource) })
	if f.Drains() {
		f.Recent = recent(p.Change, by.Now)
	}
	f.simulate(p.Plan, facts, by, released)
	for _, r := range ForecastRules {
		f.Findings = append(f.Findings, r.find(p.Plan, f)...)
	}
	return f
}

// restsOn reports whether f may be another forecast with a resource that could not be read, and no milder one. It forecasts the worst
// of drains, so that a resource read for these alone counts only where there are some.
func (f *Forecast) restsOn(resource string) bool {
	switch resource {
	case nodes, "machineconfigpools":
		return true
	case "deployments", // for remedies alone
		"clusterversions", "configmaps", "machineconfignodes", "pinnedimagesets": // by which nodes are not drained, or hold images
		return false
	case machines, "clusteroperators": // for node actions, and whether MCO is busy
		return f.Reaches()
	default:
		return f.Besides != nil || slices.ContainsFunc(f.Pools, func(p rollout.Pool) bool { return p.Decision.Drains })
	}
}

// simulate has the drains simulated, those that come later or may come as well, unless no pod is known, as they could not be read.
// Pods and nodes that were read before, and cannot be now, still show what harm is done.
func (f *Forecast) simulate(p plan.Plan, facts policy.Facts, by Forecaster, released rollout.Forecast) {
	if !f.Drains() && f.Besides == nil || slices.Contains(f.Unknown, pods) && len(p.Known.Rollout.Pods) == 0 {
		return
	}
	f.pulls = pulls(&p, facts)
	run := func(of rollout.Forecast, before *simulation.Result) *simulation.Result {
		in := simulation.Input{Cluster: *p.Known.Rollout, Forecast: of, Pull: f.pulls.pull, OwnPolicies: p.Routes.OwnPolicies(), Now: by.Now}
		if by.Stop != nil {
			in.Stop = by.Stop()
		}
		result := simulation.Run(in)
		if result.Partial && before != nil && !before.Partial {
			return before
		}
		return &result
	}
	before := cmp.Or(by.Before, &Forecast{})
	if f.Drains() {
		f.Simulation = run(f.Forecast, before.Simulation)
		f.countMoved(f.Simulation)
	}
	if f.Besides != nil {
		f.Later = run(released, before.Later)
		f.countMoved(f.Later)
	}
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

// countMoved adds to f.Moved, f.moved and f.doubtful.
func (f *Forecast) countMoved(of *simulation.Result) {
	for _, m := range of.Moved {
		a := f.pulls.assess(m.Image, m.Namespace, m.Pool)
		if a == nil {
			continue
		}
		if isDoubtful(a) {
			f.doubtful = append(f.doubtful, movedImage{a, m, of})
		}
		if f.pulls.counted[a] || !a.Settled {
			continue
		}
		f.pulls.counted[a] = true
		f.Moved.All++
		switch pullAfter(a) {
		case rollout.PullFails:
			f.Moved.Lost++
		case rollout.PullUnknown:
			f.Moved.Open++
		default:
			if a.Assumption() != "" {
				f.Moved.Assumed++
			}
		}
		f.moved = append(f.moved, movedImage{a, m, of})
	}
	slices.SortStableFunc(f.moved, byRank)
}

// Lookups returns what has yet to be looked up about images that pods have to pull again when
// nodes are drained, whether the change reroutes them or not: those first for which the rollout
// may stall. The caller proceeds as with plan.Plan.Lookups, and then has the forecast made again.
func (f *Forecast) Lookups(facts policy.Facts) []mirrors.Location {
	if f.pulls == nil {
		return nil
	}
	f.pulls.facts = facts
	q := &evidence.Lookups{Facts: facts}
	for _, simulated := range f.simulations() {
		for _, stall := range simulated.Stalls {
			f.pulls.lookUp(q, stall.Image)
			for _, missing := range stall.Missing {
				f.pulls.lookUp(q, missing.Image)
			}
		}
	}
	if len(q.List) > 0 {
		return q.List
	}
	for _, m := range f.moved[:min(len(f.moved), maxMoved)] {
		f.pulls.lookups(q, m.Case)
	}
	return q.List
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
