package review

import (
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// forecastDocument returns f as JSON, nil if there is none.
func forecastDocument(f *forecast.Forecast) *v1alpha1.Forecast {
	if f == nil {
		return nil
	}
	d := &v1alpha1.Forecast{Summary: f.String(), Hosted: f.Hosted, Pools: []v1alpha1.PoolStep{}, Time: span(f.Time), Recent: f.Recent, Unknown: f.Unknown}
	for _, p := range f.Pools {
		d.Pools = append(d.Pools, poolStep(p))
	}
	for _, u := range f.Unmanaged {
		d.Unmanaged = append(d.Unmanaged, v1alpha1.UnmanagedNode(u))
	}
	if s := f.Simulation; s != nil {
		d.Simulation = &v1alpha1.Simulation{
			Partial: s.Partial, Finishes: s.Finishes() && len(f.Unknown) == 0, Waiting: s.Waiting,
			Steps: append([]v1alpha1.Step{}, convert.Each(s.Steps, step)...), Stalls: append([]v1alpha1.Stall{}, convert.Each(s.Stalls, stall)...),
			Obstacles: append([]v1alpha1.Obstacle{}, convert.Each(s.Obstacles, obstacle)...),
		}
	}
	return d
}

func poolStep(p rollout.Pool) v1alpha1.PoolStep {
	step := v1alpha1.PoolStep{
		Name: p.Name, Part: string(p.Part), Why: p.Why, Decision: p.Decision.String(),
		Drains: p.Decision.Drains, Reasons: p.Decision.Reasons, Reboots: p.Decision.Effect() == rollout.Reboots,
		Nodes: []string{}, MaxUnavailable: p.MaxUnavailable, Capacity: p.AtOnce, After: p.After, Time: span(p.Time),
	}
	for _, n := range p.Nodes {
		step.Nodes = append(step.Nodes, n.Name)
	}
	return step
}

func span(r rollout.Range) v1alpha1.Span {
	return v1alpha1.Span{MinSeconds: r.Min.Seconds(), MaxSeconds: r.Max.Seconds()}
}

func step(s simulation.Step) v1alpha1.Step {
	d := v1alpha1.Step{Pool: s.Pool, Node: s.Node, Drained: s.Drained, Refused: s.Refused, Updated: s.Updated, Text: s.String()}
	for _, m := range s.Moves {
		d.Moves = append(d.Moves, v1alpha1.Move{Pod: m.Pod, To: m.To, Later: m.Later, Updated: m.Updated, Outcome: string(m.Outcome), Image: m.Image})
	}
	return d
}

func stall(s simulation.Stall) v1alpha1.Stall {
	d := v1alpha1.Stall{Pool: s.Pool, Node: s.Node, Pod: s.Pod, Budgets: s.Budgets, Image: s.Image, Why: s.Why, ByImage: s.ByImage, Possible: s.Possible, Text: s.String()}
	for _, m := range s.Missing {
		d.Missing = append(d.Missing, v1alpha1.Missing(m))
	}
	return d
}

func obstacle(o simulation.Obstacle) v1alpha1.Obstacle {
	return v1alpha1.Obstacle{Kind: string(o.Kind), Budgets: o.Budgets, Pods: o.Pods, Nodes: o.Nodes, Why: o.Why, Help: o.Help, Router: o.Router, Text: o.String()}
}
