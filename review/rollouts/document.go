package rollouts

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

func condition(c status.Condition) v1alpha1.Condition { return v1alpha1.Condition(c) }

func registryChange(c rollout.RegistryChange) v1alpha1.RegistryChange {
	return v1alpha1.RegistryChange(c)
}

// StatusDocument returns s as it is published.
func StatusDocument(s status.Status) v1alpha1.RolloutStatus {
	d := v1alpha1.RolloutStatus{
		Pools:     convert.Each(s.Pools, poolDocument),
		Unmanaged: convert.Each(s.Unmanaged, func(u rollout.Unmanaged) v1alpha1.UnmanagedNode { return v1alpha1.UnmanagedNode(u) }),
		Remaining: remaining(s.Remaining), Notes: s.Notes,
	}
	if s.Operator != nil {
		d.Operator = &v1alpha1.Operator{Conditions: convert.Each(s.Operator.Conditions, condition)}
	}
	return d
}

func poolDocument(p status.Pool) v1alpha1.PoolStatus {
	d := v1alpha1.PoolStatus{
		Name: p.Name, State: string(p.State), Held: p.Held,
		Machines: p.Machines, Updated: p.Updated, Ready: p.Ready, Unavailable: p.Unavailable, Degraded: p.Degraded, Present: len(p.Nodes),
		AtOnce: p.AtOnce, Paused: (*v1alpha1.Paused)(p.Paused), Current: p.Current, Target: p.Target, From: p.From,
		Action: p.Action, Drains: p.Drains, Conditions: convert.Each(p.Conditions, condition), Nodes: convert.Each(p.Left, nodeDocument),
		Remaining: remaining(p.Remaining),
	}
	if c := p.Changes; c != nil {
		d.Changes = &v1alpha1.Changes{Registries: convert.Each(c.Registries, registryChange), Files: c.Files, Units: c.Units, System: c.System}
	}
	return d
}

// remaining returns nil for no time.
func remaining(r rollout.Range) *v1alpha1.Remaining {
	if r.Max == 0 {
		return nil
	}
	return &v1alpha1.Remaining{MinSeconds: int64(r.Min / time.Second), MaxSeconds: int64(r.Max / time.Second), Text: r.String()}
}

func nodeDocument(n status.Node) v1alpha1.NodeStatus {
	d := v1alpha1.NodeStatus{
		Name: n.Name, Zone: n.Zone, State: string(n.State), Daemon: n.Report.State, Reason: n.Reason, Current: n.Current, Desired: n.Desired,
		Unavailable: n.Unavailable, Since: n.Since, Cordoned: (*v1alpha1.Cordoned)(n.Cordoned),
		Conditions: convert.Each(n.Conditions, condition),
	}
	if n.DrainAsked != "" {
		d.Drain = &v1alpha1.Drain{Asked: n.DrainAsked, Done: n.DrainDone, Finished: n.DrainAsked == n.DrainDone}
	}
	return d
}

// DiagnosisDocument returns d as it is published.
func DiagnosisDocument(d causes.Diagnosis) v1alpha1.Diagnosis {
	return v1alpha1.Diagnosis{Findings: convert.Each(d.HoldUps, holdUp), Unknown: d.Unknown, Notes: d.Notes}
}

func holdUp(f causes.HoldUp) v1alpha1.HoldUp {
	return v1alpha1.HoldUp{
		Cause: string(f.Cause), Pool: f.Pool, Node: f.Node, AlsoNodes: f.AlsoNodes, Chain: f.Chain.Lines(), Unexplained: f.Unexplained,
		Remedies: convert.Each(f.Remedies, func(r causes.Remedy) v1alpha1.Remedy { return v1alpha1.Remedy(r) }), Passing: f.Passing,
	}
}

// VerificationDocument returns v as it is published.
func VerificationDocument(v verify.Verification) v1alpha1.Verification {
	return v1alpha1.Verification{
		Result: string(v.Result), Rejected: v.Rejected, Nodes: convert.Each(v.Nodes, nodeConfig),
		Pulls:   convert.Each(v.Pulls, func(f verify.PullFailure) v1alpha1.PullFailure { return v1alpha1.PullFailure(f) }),
		Left:    convert.Each(v.Left, func(t verify.Task) v1alpha1.Task { return v1alpha1.Task(t) }),
		Unknown: v.Unknown, NotCompared: v.NotCompared,
	}
}

func nodeConfig(n verify.NodeConfig) v1alpha1.NodeConfig {
	return v1alpha1.NodeConfig{
		Node: n.Node, Pool: n.Pool, Config: n.Config, Result: string(n.Result), Why: n.Why, Differences: convert.Each(n.Differences, registryChange),
	}
}

// EventDocument returns e as it is published.
func EventDocument(e progress.Event) v1alpha1.RolloutEvent {
	d := v1alpha1.RolloutEvent{
		APIVersion: v1alpha1.APIVersion, Kind: "RolloutEvent", Time: e.Time.UTC(), Type: string(e.Type), Pool: e.Pool, Node: e.Node,
		Message: e.Message, Config: e.Config, Objects: e.Objects, Seconds: e.Seconds, Causes: convert.Each(e.Causes, causes.Chain.Lines),
	}
	for stage, n := range e.Counts {
		if d.Nodes == nil {
			d.Nodes = map[string]int{}
		}
		d.Nodes[string(stage)] = n
	}
	return d
}
