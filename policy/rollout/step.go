package rollout

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Step is a change from one Set to another. BeforeRejected and AfterRejected are set for one that MCO
// rejects (mirrors.Resolve).
type Step struct {
	Before, After                 mirrors.Set
	BeforeRejected, AfterRejected bool
}

// Decisions returns what the step does to the nodes of each pool, as NewForecast wants it.
// Pools have different files only where MachineConfigs lay some beside those that MCO
// generates.
//
// A step to a set that MCO rejects changes nothing. One from such a set starts from the configuration
// applied last or, where that is not known, from that of the objects.
func (s Step) Decisions(c Conditions) func(pool string) (Decision, error) {
	if s.AfterRejected {
		return func(string) (Decision, error) { return Decision{}, nil }
	}
	type outcome struct {
		pools    []string
		decision Decision
		err      error
	}
	var outcomes []outcome
	for _, variant := range s.Before.Variants(s.After) { // the first is that of workers
		d, err := s.decide(variant.Set.Pool, c)
		outcomes = append(outcomes, outcome{variant.Pools, d, err})
	}
	return func(pool string) (Decision, error) {
		i := slices.IndexFunc(outcomes, func(o outcome) bool { return slices.Contains(o.pools, pool) })
		o := outcomes[max(i, 0)] // pools without files of their own have those of workers
		return o.decision, o.err
	}
}

func (s Step) decide(pool string, c Conditions) (Decision, error) {
	before, err := s.before(pool)
	if err != nil {
		return Decision{}, err
	}
	after, err := mirrors.Rendered(s.After.At(pool))
	if err != nil {
		return Decision{}, err
	}
	return Decide(before, after, c)
}

func (s Step) before(pool string) (Files, error) {
	if s.BeforeRejected && s.Before.Applied != nil {
		return mirrors.RenderedApplied(s.Before.At(pool)), nil
	}
	return mirrors.Rendered(s.Before.At(pool))
}
