package progress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Pool is the progress of a pool.
type Pool struct {
	*status.Pool
	// Active is set while a node is still to get the pool's config.
	Active bool
	Counts Counts
	// Unmoved is how long nothing has moved; 0 for a pool that is not active.
	Unmoved time.Duration
	// Stall is nil for a pool that is not stalled.
	Stall *Stall
	// Degraded says since when the pool has been so, by the observer's clock; zero if it is
	// not. DegradedFirst is set if it has been since the observer began.
	Degraded      time.Time
	DegradedFirst bool
}

// Stall is a rollout that has not moved for too long.
type Stall struct {
	// Since is when something moved for the last time.
	Since time.Time
	// Cause says why, in a line; Causes are the chains of all hold-ups. There are none where no
	// cause is known.
	Cause  string
	Causes []causes.Chain
}

// poolTrack is the observed history of a pool.
type poolTrack struct {
	name   string
	nodes  map[string]*nodeTrack
	active bool
	target string
	paused bool
	held   string
	// degraded is the time it became degraded, or zero. If degradedFirst, it was so at the first look,
	// whose time that is.
	degraded      time.Time
	degradedFirst bool
	// moved is when something moved for the last time.
	moved time.Time
	stall *Stall
	// diagnosed is when the last diagnosis was made, and left the pods that were still to leave
	// nodes of the pool then; nil if there was none since something moved.
	diagnosed time.Time
	left      map[string]bool
	explained bool // the last diagnosis named a cause
}

type nodeTrack struct {
	stage Stage
	// target is the config of the pool, and best how far the node has come with it.
	target string
	best   int
}

func (p *poolTrack) event(now time.Time, kind Type, message string) Event {
	return Event{Time: now, Type: kind, Pool: p.name, Message: text.Line(message), Config: p.target, Counts: p.counts()}
}

func (p *poolTrack) say(o *observation, kind Type, format string, args ...any) {
	o.events = append(o.events, p.event(o.Time, kind, fmt.Sprintf(format, args...)))
}

func (p *poolTrack) counts() Counts {
	counts := Counts{}
	for _, n := range p.nodes {
		counts[n.stage]++
	}
	return counts
}

// find takes a pool that was not known. Its nodes are not news unless they are under way.
func (p *poolTrack) find(o *observation) {
	p.name = o.pool.Name
	p.take(o)
	stages := o.stages()
	for _, member := range o.pool.Nodes {
		name := member.Name
		p.nodes[name] = &nodeTrack{stage: stages[name], target: p.target, best: stages[name].rank()}
	}
	p.degradedFirst = !p.degraded.IsZero()
	p.say(o, PoolFound, "%s", foundText(o.pool, p.counts()))
	if p.active {
		o.events[len(o.events)-1].Objects = o.objects()
	}
	for _, member := range o.pool.Nodes {
		name := member.Name
		if stage := stages[name]; stage.isUnderWay() || stage == Degraded {
			p.sayNode(o, name, NodeFound)
		}
	}
}

// take copies what the observation says of the pool itself.
func (p *poolTrack) take(o *observation) {
	p.active, p.target = o.pool.From != "", o.pool.Target
	p.paused, p.held = o.pool.Paused != nil, o.pool.Held
	switch {
	case o.pool.State != status.PoolDegraded:
		p.degraded, p.degradedFirst = time.Time{}, false
	case p.degraded.IsZero():
		p.degraded = o.Time
	}
}

// foundText completes a sentence about a pool.
func foundText(p *status.Pool, counts Counts) string {
	state := "is " + p.StateWord()
	if p.From == "" {
		return fmt.Sprintf("%s: %s", state, text.Count(counts.Total(), "node"))
	}
	return fmt.Sprintf("%s: %d of %s %s", state, counts[Done], text.Plural(counts.Total(), "node has", "nodes have"), cmp.Or(p.Target, "(none)"))
}

// observe takes the next view of a pool that is known.
func (p *poolTrack) observe(o *observation) {
	before := *p
	p.take(o)
	moved := p.observeTarget(o, before)
	moved = p.observeNodes(o) || moved
	p.observeState(o, before)
	if moved {
		p.movedAt(o.Time, &o.events)
	}
	for i := range o.events { // as the pool is now
		if o.events[i].Node == "" {
			o.events[i].Counts = p.counts()
		}
	}
	if before.active && !p.active {
		p.stall = nil
		if o.pool.State == status.PoolUpdated {
			p.say(o, PoolUpdated, "is updated: all %s", text.Plural(len(p.nodes), "node has ", "nodes have ")+p.target)
		}
	}
}

// observeTarget says that a rollout begins, or that it has another end. It reports whether
// that is so, and may move nodes: those of a paused pool wait as before.
func (p *poolTrack) observeTarget(o *observation, before poolTrack) bool {
	switch {
	case p.active && !before.active:
		p.say(o, PoolBegan, "begins to get %s%s", cmp.Or(p.target, "(none)"), broughtText(o.pool))
	case p.active && p.target != before.target:
		p.say(o, PoolRetargeted, "is to have %s instead of %s now%s", cmp.Or(p.target, "(none)"), cmp.Or(before.target, "(none)"), broughtText(o.pool))
	default:
		return p.target != before.target
	}
	o.events[len(o.events)-1].Objects = o.objects()
	return !p.paused || !before.paused || !before.active
}

// named is how many entries of registries.conf are named in an event.
const named = 3

// broughtText says what a target brings: ": registries.conf for quay.io/shop, and other files;
// a node drains and reloads CRI-O".
func broughtText(p *status.Pool) string {
	c := p.Changes
	if c == nil {
		return ": its changes could not be read"
	}
	var parts []string
	if scopes := c.Scopes(); len(scopes) > 0 {
		parts = append(parts, "registries.conf for "+text.Names(scopes, named))
	}
	if len(c.Files)+len(c.Units) > 0 {
		parts = append(parts, text.Names(slices.Concat(c.Files, c.Units), named))
	}
	parts = append(parts, text.First(c.System, named, "")...)
	if len(parts) == 0 {
		return ", in which nothing differs"
	}
	return ": " + strings.Join(parts, "; ") + "; a node " + p.Action
}

// observeState says what has become of the pool apart from its nodes.
func (p *poolTrack) observeState(o *observation, before poolTrack) {
	switch {
	case p.paused && !before.paused:
		p.say(o, PoolPaused, "%s", "is paused"+pausedBy(o.pool.Paused))
	case before.paused && !p.paused:
		p.say(o, PoolResumed, "is no longer paused")
	}
	if p.held != "" && p.held != before.held {
		p.say(o, PoolHeld, "takes no node: %s", p.held)
	}
	switch {
	case before.degraded.IsZero() && !p.degraded.IsZero():
		p.say(o, PoolDegraded, "is degraded: %s", o.pool.Trouble())
	case !before.degraded.IsZero() && p.degraded.IsZero():
		p.say(o, PoolRecovered, "is no longer degraded")
	}
}

func pausedBy(p *status.Paused) string {
	if p.By == "" {
		return ""
	}
	return " by " + p.By
}

// observeNodes says what has become of the nodes, and reports whether one of them moved.
func (p *poolTrack) observeNodes(o *observation) (moved bool) {
	stages := o.stages()
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		if _, ok := stages[name]; !ok {
			moved = p.nodes[name].stage != Done || moved
			p.leave(o, name)
		}
	}
	for _, member := range o.pool.Nodes {
		name := member.Name
		stage := stages[name]
		n, known := p.nodes[name]
		if !known {
			p.nodes[name] = &nodeTrack{stage: stage, target: p.target, best: stage.rank()}
			p.sayNode(o, name, NodeJoined)
			continue
		}
		moved = p.step(o, name, n, stage) || moved
	}
	return moved
}

// step takes a node to a stage, and reports whether that is further than it has come.
func (p *poolTrack) step(o *observation, name string, n *nodeTrack, stage Stage) (moved bool) {
	before := n.stage
	if before != stage {
		n.stage = stage
		if kind := stepType(before, stage, n.target == p.target); kind != "" {
			p.sayNode(o, name, kind)
		}
	}
	if n.target != p.target {
		n.target, n.best = p.target, stage.rank()
		return false // the pool has moved
	}
	moved = stage.rank() > n.best
	n.best = max(n.best, stage.rank())
	return moved
}

// stepType returns what to say of a step, "" for nothing: in every rollout all nodes begin to wait, and
// a node that need not wait any more has not come further, as the pool has another target.
func stepType(before, after Stage, sameTarget bool) Type {
	switch after {
	case Waiting:
		if before.isUnderWay() || before == Degraded {
			return NodeWaiting
		}
		return ""
	case Done:
		if before == Waiting && !sameTarget {
			return ""
		}
		return NodeDone
	default:
		return map[Stage]Type{
			Updating: NodeTaken, Draining: NodeDraining, Drained: NodeDrained, Rebooting: NodeRebooting,
			Degraded: NodeDegraded, Unknown: NodeSilent,
		}[after]
	}
}

func (p *poolTrack) leave(o *observation, name string) {
	delete(p.nodes, name)
	message := "is gone"
	if o.members[name] {
		message = "is in another pool now"
	}
	p.sayWith(o, name, NodeLeft, message)
}

func (p *poolTrack) sayNode(o *observation, name string, kind Type) {
	p.sayWith(o, name, kind, o.words(name, p.nodes[name].stage))
}

func (p *poolTrack) sayWith(o *observation, name string, kind Type, message string) {
	e := p.event(o.Time, kind, message)
	e.Node = name
	o.events = append(o.events, e)
}

// movedAt notes that something has moved.
func (p *poolTrack) movedAt(now time.Time, events *[]Event) {
	if p.stall != nil && p.active {
		e := p.event(now, PoolMoving, fmt.Sprintf("moves again, after %s", Short(now.Sub(p.stall.Since))))
		e.Seconds = int64(now.Sub(p.stall.Since) / time.Second)
		*events = append(*events, e)
	}
	p.moved, p.diagnosed, p.left, p.explained, p.stall = now, now, nil, false, nil
}

func (p *poolTrack) view(s *status.Pool, now time.Time) Pool {
	v := Pool{Pool: s, Active: p.active, Counts: p.counts(), Stall: p.stall, Degraded: p.degraded, DegradedFirst: p.degradedFirst}
	if p.active {
		v.Unmoved = max(now.Sub(p.moved), 0)
	}
	return v
}
