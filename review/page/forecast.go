package page

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxLane is how many nodes of a pool are drawn, maxFrames how many steps of a course, maxMoves
	// how many evictions of a step.
	maxLane, maxFrames, maxMoves = 60, 24, 8
	// maxPools and maxObstacles bound the section.
	maxPools, maxObstacles = 30, 30
)

// A forecastView is the rollout that a change begins.
type forecastView struct {
	*v1alpha1.Forecast
	Lanes     []lane
	Course    *courseView
	Obstacles []v1alpha1.Obstacle
	Why       string // why nothing was simulated
	LeftPools int
}

// A lane is a pool with its nodes in the order in which MCO takes them.
type lane struct {
	v1alpha1.PoolStep
	Nodes []laneNode
	Left  int
}

// A laneNode is a node with what becomes of it at worst.
type laneNode struct {
	Order            int
	Name, Kind, What string
}

func newForecast(f *v1alpha1.Forecast) *forecastView {
	if f == nil {
		return nil
	}
	v := &forecastView{Forecast: f}
	fate := map[string]laneNode{}
	drains := slices.ContainsFunc(f.Pools, func(p v1alpha1.PoolStep) bool { return p.Drains && p.Part == "takes" })
	switch s := f.Simulation; {
	case s != nil:
		if !s.Partial { // else it proves nothing
			fate = fates(s)
		}
		v.Obstacles = s.Obstacles[:min(len(s.Obstacles), maxObstacles)]
		v.Course = newCourse(s)
	case drains:
		v.Why = "The drains were not simulated: pods or nodes could not be read."
	}
	for _, p := range f.Pools[:min(len(f.Pools), maxPools)] {
		v.Lanes = append(v.Lanes, newLane(p, fate))
	}
	v.LeftPools = len(f.Pools) - len(v.Lanes)
	return v
}

// fates says what becomes of each node.
func fates(c *v1alpha1.Simulation) map[string]laneNode {
	all := map[string]laneNode{}
	for _, s := range c.Steps {
		if s.Updated {
			all[s.Node] = laneNode{Kind: "good", What: "updated"}
		}
	}
	for _, s := range c.Stalls {
		n := laneNode{Kind: "bad", What: "stalls here"}
		if s.Possible {
			n = laneNode{Kind: "unknown", What: "may stall here"}
		}
		all[s.Node] = n
	}
	return all
}

func newLane(p v1alpha1.PoolStep, fate map[string]laneNode) lane {
	l := lane{PoolStep: p}
	for i, name := range p.Nodes[:min(len(p.Nodes), maxLane)] {
		n, known := fate[name]
		switch {
		case !known && len(fate) > 0 && p.Drains:
			n = laneNode{Kind: "note", What: "not reached"}
		case !known:
			n = laneNode{Kind: "note", What: p.Decision}
		}
		n.Order, n.Name = i+1, name
		l.Nodes = append(l.Nodes, n)
	}
	l.Left = len(p.Nodes) - len(l.Nodes)
	return l
}

// Takes reports whether nodes of the pool are updated.
func (l lane) Takes() bool { return l.Part == "takes" }

// Pace says how many nodes are updated at once, and how long that takes.
func (l lane) Pace() string {
	s := text.Count(len(l.PoolStep.Nodes), "node")
	if l.Capacity > 0 && len(l.PoolStep.Nodes) > 1 {
		s += fmt.Sprintf(", %s at once", text.Number(l.Capacity))
	}
	if l.Time.MaxSeconds > 0 {
		s += ", " + spanText(l.Time)
	}
	if l.Learned {
		s += " (as in its last rollout)"
	}
	return s
}

// A courseView is a simulation as a strip of frames.
type courseView struct {
	*v1alpha1.Simulation
	Frames  []frame
	Before  int // steps that are left out before the last ones
	Outcome string
	Kind    string
}

// A frame is the update of one node, or the drain that does not end.
type frame struct {
	Number int
	v1alpha1.Step
	Kind  string
	Moves []moveView
	Left  int
	Stall *v1alpha1.Stall
}

// A moveView is an eviction.
type moveView struct {
	v1alpha1.Move
	Kind string
	What string
}

func newCourse(c *v1alpha1.Simulation) *courseView {
	v := &courseView{Simulation: c}
	stalls := map[string]*v1alpha1.Stall{}
	for i := range c.Stalls {
		stalls[c.Stalls[i].Node] = &c.Stalls[i]
	}
	for i, s := range c.Steps {
		f := newFrame(i+1, s)
		if f.Stall = stalls[s.Node]; f.Stall != nil && !s.Updated {
			f.Kind = "bad"
			delete(stalls, s.Node)
		} else {
			f.Stall = nil
		}
		v.Frames = append(v.Frames, f)
	}
	for i := range c.Stalls {
		if s := &c.Stalls[i]; stalls[s.Node] == s {
			v.Frames = append(v.Frames, frame{Number: len(c.Steps) + 1, Step: v1alpha1.Step{Pool: s.Pool, Node: s.Node, Drained: true}, Kind: "bad", Stall: s})
		}
	}
	// The end of a course comes last.
	if v.Before = len(v.Frames) - maxFrames; v.Before > 0 {
		v.Frames = v.Frames[v.Before:]
	}
	v.Outcome, v.Kind = courseOutcome(c)
	return v
}

func courseOutcome(c *v1alpha1.Simulation) (string, string) {
	switch {
	case len(c.Stalls) > 0:
		return "The rollout stalls at " + c.Stalls[0].Node + ".", "bad"
	case c.Partial:
		return "Not determined: time was up.", "unknown"
	case c.Finishes:
		return "All nodes are updated.", "good"
	case len(c.Waiting) > 0:
		return "Nodes are left that MCO does not take.", "warn"
	default:
		return "Not determined whether it ends.", "unknown"
	}
}

func newFrame(number int, s v1alpha1.Step) frame {
	f := frame{Number: number, Step: s, Kind: "good"}
	if !s.Updated {
		f.Kind = "unknown"
	}
	for _, m := range s.Moves[:min(len(s.Moves), maxMoves)] {
		f.Moves = append(f.Moves, newMove(m))
	}
	f.Left = len(s.Moves) - len(f.Moves)
	return f
}

func newMove(m v1alpha1.Move) moveView {
	v := moveView{Move: m, Kind: "good", What: "starts"}
	switch m.Outcome {
	case "image fails":
		v.Kind, v.What = "bad", "cannot pull "+text.ShortDigest(m.Image)
	case "unschedulable":
		v.Kind, v.What = "bad", "no node takes it"
	case "gone":
		v.Kind, v.What = "warn", "nothing replaces it"
	}
	return v
}
