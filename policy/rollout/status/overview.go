package status

import (
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// MaxRendered is how many rendered configs are read for a status. Pools have two each; nodes may
// say that they have any.
const MaxRendered = 64

// Needed returns the names of the rendered configs that a status of c compares, sorted: those
// of pools, and those that nodes say they have, at most limit. The latter may be anything.
func Needed(c rollout.Cluster, limit int) []string {
	var names, ofNodes []string
	for _, p := range c.Pools {
		names = append(names, p.Spec.Configuration.Name, p.Status.Configuration.Name)
	}
	for _, n := range c.Nodes {
		r := rollout.ReportOf(n)
		ofNodes = append(ofNodes, r.Current, r.Desired)
	}
	slices.Sort(ofNodes)
	for _, name := range slices.Compact(ofNodes) {
		if !slices.Contains(names, name) && len(names) < limit {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// Of returns the status of a cluster.
func Of(in Input) Status {
	o := overview{Input: in, from: map[string][]string{}}
	o.Lookup = NewLookup(&o.Input)
	o.compare(in.Cluster.Members())
	forecast := rollout.NewForecast(in.Cluster, o.decide)
	s := Status{Operator: operatorOf(in.Cluster.Operator), Pools: []Pool{}, Unmanaged: forecast.Unmanaged}
	for _, p := range forecast.Pools {
		pool := o.pool(p)
		s.Pools = append(s.Pools, pool)
		s.Remaining = s.Remaining.Longer(pool.Remaining)
	}
	in.note(&s)
	return s
}

// overview builds a Status.
type overview struct {
	Input
	*Lookup
	from map[string][]string // by pool: the rendered configs that nodes have instead of its target
}

// maxFrom is how many configs a pool's target is compared with. There are more than two only where
// targets follow each other faster than nodes are updated.
const maxFrom = 8

// compare finds for each pool the configs that nodes have instead of its target. The one that all of
// them have had comes first: where a target replaces another one on its way, nodes that got that one
// lack less than the others.
func (o *overview) compare(f rollout.Forecast) {
	for _, p := range f.Pools {
		pool := o.Cluster.Pool(p.Name)
		target, all := pool.Spec.Configuration.Name, pool.Status.Configuration.Name
		var from []string
		for _, n := range p.Nodes {
			current := rollout.ReportOf(o.NodeOf[n.Name]).Current
			switch {
			case current == "" || current == target || slices.Contains(from, current):
			case current == all:
				from = slices.Insert(from, 0, current)
			default:
				from = append(from, current)
			}
		}
		if len(from) == 0 && all != "" && all != target {
			from = []string{all}
		}
		o.from[p.Name] = from[:min(len(from), maxFrom)]
	}
}

// decide returns what the target of a pool does to the node to which it does most. A config that could
// not be read is taken to drain nodes, as it may.
func (o *overview) decide(pool string) (rollout.Decision, error) {
	after, most := o.target(pool), rollout.Decision{}
	for i, from := range o.from[pool] {
		before := o.Rendered[from]
		if before == nil || after == nil {
			return rollout.Decision{Changed: []string{mirrors.RegistriesConfPath}, Drains: !o.Cluster.IsSingleNode()}, nil
		}
		d, err := before.Decide(after, o.Cluster.Conditions())
		if err != nil {
			return d, err
		}
		if i == 0 || d.Drains && !most.Drains || d.Drains == most.Drains && d.Effect() > most.Effect() {
			most = d
		}
	}
	return most, nil
}

// target returns what nodes of a pool are to have, nil if it could not be read.
func (o *overview) target(pool string) *rollout.Rendered {
	return o.Rendered[o.Cluster.Pool(pool).Spec.Configuration.Name]
}

// changes returns what the target of a pool brings to any of its nodes, nil if that is not known.
func (o *overview) changes(pool string) *rollout.Changes {
	var all *rollout.Changes
	after := o.target(pool)
	for _, from := range o.from[pool] {
		switch before := o.Rendered[from]; {
		case before == nil || after == nil:
		case all == nil:
			all = new(before.ChangesTo(after))
		default:
			*all = all.And(before.ChangesTo(after))
		}
	}
	return all
}

func (o *overview) pool(f rollout.Pool) Pool {
	object := o.Cluster.Pool(f.Name)
	status := object.Status
	p := Pool{
		Pool: f, Machines: int(status.MachineCount), Updated: int(status.UpdatedMachineCount), Ready: int(status.ReadyMachineCount),
		Unavailable: int(status.UnavailableMachineCount), Degraded: int(status.DegradedMachineCount),
		Current: status.Configuration.Name, Target: object.Spec.Configuration.Name, Changes: o.changes(f.Name),
		Paused: o.paused(object), Conditions: poolConditions(status.Conditions), Left: []Node{},
	}
	if from := o.from[f.Name]; len(from) > 0 {
		p.From = from[0]
	}
	if p.Changes != nil {
		if decision, err := o.decide(f.Name); err == nil { // a forecast has none for a pool that takes no node
			p.Action, p.Drains = decision.String(), decision.Drains
		}
	}
	waiting, underWay := 0, 0
	for _, n := range f.Nodes {
		node, ok := o.node(o.NodeOf[n.Name], n, p.Target)
		if !ok {
			continue
		}
		p.Left = append(p.Left, node)
		switch {
		case node.State == NodeWaits:
			waiting++
		case node.IsUnderWay() || node.State == NodeDegraded:
			underWay++
		}
	}
	p.Remaining = f.TimeLeft(waiting, underWay)
	p.Held = held(f, waiting)
	p.State = p.state(object, waiting+underWay)
	return p
}

// held says why no node is taken although some wait, or could not be.
func held(f rollout.Pool, waiting int) string {
	switch f.Part {
	case rollout.Invalid:
		return f.Why
	case rollout.Stopped, rollout.Unreadable:
		if waiting > 0 {
			return f.Why
		}
	}
	return ""
}

func (p *Pool) state(object *mcfgv1.MachineConfigPool, left int) PoolState {
	is := func(kind mcfgv1.MachineConfigPoolConditionType) bool {
		_, is := rollout.PoolCondition(object, kind)
		return is
	}
	degraded := slices.ContainsFunc(p.Left, func(n Node) bool { return n.State == NodeDegraded })
	switch {
	case object.DeletionTimestamp != nil:
		return PoolDeleted
	case degraded || is(mcfgv1.MachineConfigPoolDegraded) || is(mcfgv1.MachineConfigPoolRenderDegraded):
		return PoolDegraded
	case p.Paused != nil:
		return PoolPaused
	case p.Held != "":
		return PoolHeld
	case left > 0 || is(mcfgv1.MachineConfigPoolUpdating) || p.Target != p.Current:
		return PoolUpdating
	case len(p.Nodes) < p.Machines || p.Target == "":
		return PoolUnknown
	default:
		return PoolUpdated
	}
}

func (o *overview) paused(object *mcfgv1.MachineConfigPool) *Paused {
	if !object.Spec.Paused {
		return nil
	}
	since, by, _ := rollout.PausedSince(object)
	return &Paused{timeOf(since), by, o.Cluster.PausedLines(object.Name, o.Now)}
}

// Node returns how far a node is that is to get target, false if it is done.
func (o *overview) node(n *corev1.Node, f rollout.Node, target string) (Node, bool) {
	r := rollout.ReportOf(n)
	node := Node{
		Node: f, Report: r, State: stateOf(r, f, target), Conditions: nodeConditions(n.Status.Conditions),
	}
	if node.State == "" {
		return Node{}, false
	}
	if n.Spec.Unschedulable {
		since, by, _ := rollout.CordonedSince(n)
		node.Cordoned = &Cordoned{timeOf(since), by}
	}
	o.progress(&node)
	return node, true
}

// stateOf says what happens on a node, "" for one that is done.
func stateOf(r rollout.Report, f rollout.Node, target string) NodeState {
	drain := "drain-" + r.Desired
	switch {
	case r.Current == "" || r.Desired == "" || r.State == "":
		return NodeSilent
	case r.GaveUp:
		return NodeDegraded
	case r.Done && target != "" && r.Desired != target:
		return NodeWaits
	case r.Done && f.Unavailable != "":
		return NodeUnavailable
	case r.Done:
		return ""
	case r.DrainAsked == drain && r.DrainDone != drain:
		return NodeDraining
	case r.DrainAsked == drain:
		return NodeApplying
	default:
		return NodeUpdating
	}
}

// progress adds what the MachineConfigNode says of a node.
func (o *overview) progress(node *Node) {
	machine := o.machines[node.Name]
	if machine == nil {
		return
	}
	for _, c := range machine.Status.Conditions {
		begun := c.Type == string(mcfgv1.MachineConfigNodeUpdated) && c.Status == "False"
		if begun && node.State != NodeWaits {
			node.Since = timeOf(c.LastTransitionTime.Time)
		}
		if c.Status != "False" && c.Type != string(mcfgv1.MachineConfigNodeUpdated) {
			node.Conditions = append(node.Conditions, Condition{c.Type, string(c.Status), c.Reason, c.Message, timeOf(c.LastTransitionTime.Time)})
		}
	}
}

// operatorOf returns Available, Progressing and Degraded, in that order.
func operatorOf(o *configv1.ClusterOperator) *Operator {
	if o == nil {
		return nil
	}
	status := &Operator{Conditions: []Condition{}}
	for _, kind := range []configv1.ClusterStatusConditionType{configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded} {
		for _, c := range o.Status.Conditions {
			if c.Type == kind {
				status.Conditions = append(status.Conditions, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, timeOf(c.LastTransitionTime.Time)})
			}
		}
	}
	return status
}

// poolConditions returns those that say that something is degraded.
func poolConditions(conditions []mcfgv1.MachineConfigPoolCondition) []Condition {
	var bad []Condition
	for _, c := range conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(degradations, c.Type) {
			bad = append(bad, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, timeOf(c.LastTransitionTime.Time)})
		}
	}
	return bad
}

var degradations = []mcfgv1.MachineConfigPoolConditionType{
	mcfgv1.MachineConfigPoolDegraded, mcfgv1.MachineConfigPoolNodeDegraded, mcfgv1.MachineConfigPoolRenderDegraded,
	mcfgv1.MachineConfigPoolImageBuildDegraded, mcfgv1.MachineConfigPoolBuildFailed,
}

func nodeConditions(conditions []corev1.NodeCondition) []Condition {
	var bad []Condition
	for _, c := range conditions {
		if (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue) {
			bad = append(bad, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, timeOf(c.LastTransitionTime.Time)})
		}
	}
	return bad
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
