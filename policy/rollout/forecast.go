package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// Members returns which nodes the pools have, in which order MCO takes them, and what keeps the pools
// from them: a forecast of nothing.
func (c Cluster) Members() Forecast {
	return NewForecast(c, func(string) (Decision, error) { return Decision{}, nil })
}

// Forecast is the effect of a change on the nodes of a cluster.
type Forecast struct {
	// Hosted is set for a cluster whose control plane runs elsewhere. Its nodes follow a
	// NodePool, which replaces or updates them in place; nothing else is known then.
	Hosted bool
	// Pools are master, arbiter and worker, and then the others by name.
	Pools []Pool
	// Unmanaged are the nodes that no pool updates, by name.
	Unmanaged []Unmanaged
	// Time is how long the pools take that take part, all at once.
	Time Range
}

// Pool is the effect of a change on the nodes of a MachineConfigPool.
type Pool struct {
	Name string
	// Part says whether the nodes get the change, and what keeps them from it. Why says so
	// in words where it needs some: a clause without the name of the pool.
	Part Part
	Why  string
	// Decision is what happens on each node.
	Decision Decision
	// Nodes are all that the pool updates, in the order in which MCO takes them.
	Nodes []Node
	// MaxUnavailable is how many may be unavailable at once, as MCO reads spec.maxUnavailable
	// for that many nodes.
	MaxUnavailable int
	// AtOnce is how many are updated at once: MaxUnavailable less the nodes that are
	// unavailable for other reasons than an update.
	AtOnce int
	// After is the pool that has to be done first, "" for none: all others go in parallel.
	After string
	// Time is how long the pool takes from its first node on; nothing if it does not take
	// part.
	Time Range
}

// Part is the part that a pool takes in a rollout.
type Part string

// The parts.
const (
	// Takes: its nodes get the change.
	Takes Part = "takes"
	// Unchanged: no file of its rendered config differs.
	Unchanged Part = "unchanged"
	// Unselected: its machineConfigSelector selects no MachineConfig that is about mirrors.
	Unselected Part = "unselected"
	// Empty: it has no nodes.
	Empty Part = "empty"
	// Paused: its rendered config is made, and reaches nodes when it is no longer paused.
	Paused Part = "paused"
	// Deleted: it is being deleted.
	Deleted Part = "deleted"
	// Stopped: no node is taken, as too many are unavailable.
	Stopped Part = "stopped"
	// Invalid: MCO cannot read its maxUnavailable or its machineConfigSelector.
	Invalid Part = "invalid"
	// Unreadable: its nodes cannot read their registries.conf, and will be degraded.
	Unreadable Part = "unreadable"
)

// NewForecast returns what a change does to the nodes of c. Decide says what it does to each
// node of a pool; it is called once for each pool that has nodes and that the change
// reaches, and its error is that of Decide.
func NewForecast(c Cluster, decide func(pool string) (Decision, error)) Forecast {
	if c.Topology == configv1.ExternalTopologyMode {
		return Forecast{Hosted: true}
	}
	members := newMembership(c.Pools, c.Nodes)
	forecast := Forecast{Unmanaged: members.unmanaged}
	generated := generatedRoles(c.Pools)
	for _, pool := range c.Pools {
		p := Pool{Name: pool.Name}
		last := ""
		if pool.Name == masterPool {
			last = c.OperatorNode
		}
		p.Nodes = inOrder(members.nodes[pool.Name], last)
		p.decide(pool, generated, decide)
		p.schedule()
		forecast.Pools = append(forecast.Pools, p)
	}
	slices.SortFunc(forecast.Pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), strings.Compare(a.Name, b.Name))
	})
	forecast.awaitMasters(c.Topology)
	forecast.Time = forecast.longest()
	return forecast
}

func rank(pool string) int {
	if i := slices.Index([]string{masterPool, arbiterPool, workerPool}, pool); i >= 0 {
		return i
	}
	return 3
}

// builtIn is the label of the pools for which MCO generates registries.conf
// (syncImageConfig, container_runtime_config_controller.go:1032).
const builtIn = "machineconfiguration.openshift.io/mco-built-in"

// generatedRoles returns the labels of MachineConfigs 99-<pool>-generated-registries, by
// which pools select them.
func generatedRoles(pools []*mcfgv1.MachineConfigPool) []labels.Set {
	roles := map[string]bool{masterPool: true, workerPool: true}
	for _, pool := range pools {
		if _, ok := pool.Labels[builtIn]; ok {
			roles[pool.Name] = true
		}
	}
	return convert.Each(slices.Sorted(maps.Keys(roles)), func(role string) labels.Set { return labels.Set{mcfgv1.MachineConfigRoleLabelKey: role} })
}

// decide sets the part that p takes, apart from its nodes' state.
func (p *Pool) decide(pool *mcfgv1.MachineConfigPool, generated []labels.Set, decide func(pool string) (Decision, error)) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	switch {
	case err != nil:
		p.Part, p.Why = Invalid, fmt.Sprintf("its machineConfigSelector is invalid: %v", err)
	case selector.Empty() || !slices.ContainsFunc(generated, func(set labels.Set) bool { return selector.Matches(set) }):
		p.Part, p.Why = Unselected, "its machineConfigSelector selects none of the MachineConfigs that MCO generates for registries"
		return
	case len(p.Nodes) == 0:
		p.Part = Empty
		return
	}
	if p.MaxUnavailable, err = maxUnavailable(pool, len(p.Nodes)); err != nil {
		p.Part, p.Why = Invalid, fmt.Sprintf("its maxUnavailable is invalid: %v", err)
	}
	p.Decision, err = decide(pool.Name)
	switch {
	case p.Part == Invalid: // until somebody mends it
	case err != nil:
		p.Part, p.Why = Unreadable, err.Error()
	case p.Decision.Effect() == NoRollout:
		p.Part = Unchanged
	case pool.DeletionTimestamp != nil:
		p.Part = Deleted
	case pool.Spec.Paused:
		p.Part = Paused
	default:
		p.Part = Takes
	}
}

// maxUnavailable restates the function of that name (node_controller.go:2040): a percentage
// is rounded down, none of anything is one, and arbiters go one at a time.
func maxUnavailable(pool *mcfgv1.MachineConfigPool, nodes int) (int, error) {
	if pool.Name == arbiterPool || pool.Spec.MaxUnavailable == nil {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(pool.Spec.MaxUnavailable, nodes, false)
	if n == 0 {
		n = 1
	}
	return n, err
}

// schedule works out how many nodes go at once, and how long they all take
// (getAllCandidateMachines, node_controller.go:1670).
func (p *Pool) schedule() {
	waiting, updating := 0, 0
	for _, n := range p.Nodes {
		switch {
		case n.IsSkipped():
			waiting++
		case n.Updating:
			updating++
		}
	}
	p.AtOnce = max(p.MaxUnavailable-waiting, 0)
	if p.Part != Takes {
		return
	}
	if p.AtOnce == 0 || waiting == len(p.Nodes) {
		p.stop(p.stopped())
		return
	}
	perNode := p.perNode()
	p.Time = perNode.times(rounds(len(p.Nodes)-waiting, p.AtOnce))
	// Updates under way have to end first. Neither their progress nor their steps are known.
	p.Time.Max += perNode.times(rounds(updating, p.AtOnce)).Max
}

// perNode returns how long a node of p takes.
func (p *Pool) perNode() Range {
	took := reloadTime
	if p.Decision.Drains {
		took = drainTime
	}
	if p.Decision.Effect() == Reboots {
		took = took.plus(rebootTime)
	}
	return took
}

// TimeLeft returns how long p takes for the rest of a rollout: waiting nodes that have not been
// taken, and underWay of them that have and whose progress is unknown. It is zero if nothing is
// left or no node is taken.
func (p *Pool) TimeLeft(waiting, underWay int) Range {
	if p.Part != Takes || p.AtOnce == 0 {
		return Range{}
	}
	perNode := p.perNode()
	return Range{perNode.times(rounds(waiting, p.AtOnce)).Min, perNode.times(rounds(waiting+underWay, p.AtOnce)).Max}
}

// rounds is how often a pool takes nodes. MCO takes the next one whenever one is done, which
// comes to the same where all take as long.
func rounds(nodes, capacity int) int { return (nodes + capacity - 1) / capacity }

func (p *Pool) stop(why string) { p.Part, p.Why, p.Time = Stopped, why, Range{} }

// stopped says why no node is taken.
func (p *Pool) stopped() string {
	why, waiting := p.waiting()
	switch {
	case waiting == 0:
		return fmt.Sprintf("maxUnavailable is %d", p.MaxUnavailable)
	case p.AtOnce == 0:
		return fmt.Sprintf("%s, and maxUnavailable is %d", why, p.MaxUnavailable)
	default:
		return why
	}
}

// waiting says which nodes wait and why, and how many they are.
func (p *Pool) waiting() (string, int) {
	first, n := "", 0
	for _, node := range p.Nodes {
		if !node.IsSkipped() {
			continue
		}
		if n++; n == 1 {
			first = fmt.Sprintf("node %s %s", node.Name, node.Unavailable)
		}
	}
	if n > 1 {
		first += fmt.Sprintf(" (and %d more)", n-1)
	}
	return first, n
}

// awaitMasters restates how MCO keeps a quorum of etcd where there is an arbiter (updatePools
// and syncMachineConfigPool, node_controller.go:1387 and 1320): arbiters go after the
// masters, and neither pool goes while a node of the other is unavailable.
func (f *Forecast) awaitMasters(topology configv1.TopologyMode) {
	arbiter, master := f.pool(arbiterPool), f.pool(masterPool)
	if topology != configv1.HighlyAvailableArbiterMode || arbiter == nil || master == nil {
		return
	}
	downThere, arbiters := arbiter.waiting()
	if arbiters > 0 && master.Part == Takes {
		master.stop(downThere + ", in pool arbiter")
	}
	downHere, masters := master.waiting()
	switch {
	case arbiter.Part != Takes:
	case masters > 0:
		arbiter.stop(downHere + ", in pool master")
	case master.Part == Takes:
		arbiter.After = masterPool
	}
}

func (f *Forecast) pool(name string) *Pool {
	i := slices.IndexFunc(f.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Pools[i]
}

// longest returns the time of the pools side by side.
func (f *Forecast) longest() Range {
	var all Range
	for _, p := range f.Pools {
		all = all.Longer(f.until(p))
	}
	return all
}

// until returns when a pool is done, from the beginning of the rollout.
func (f Forecast) until(p Pool) Range {
	if before := f.pool(p.After); before != nil {
		return p.Time.plus(before.Time)
	}
	return p.Time
}
