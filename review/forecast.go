package review

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// A Forecast is a policy.Forecast as JSON.
type Forecast struct {
	// Summary is the forecast in one line, as the end of a sentence about the change.
	Summary string `json:"summary"`
	// Hosted is set for a cluster whose nodes follow a NodePool; nothing else is known then.
	Hosted bool       `json:"hosted,omitempty"`
	Pools  []PoolStep `json:"pools"`
	// Unmanaged are the nodes that no pool updates.
	Unmanaged []UnmanagedNode `json:"unmanaged,omitempty"`
	// Time is how long the pools take, all at once.
	Time Span `json:"time"`
	// Recent are other mirror objects that were changed shortly before.
	Recent []string `json:"recent,omitempty"`
	// Unknown names what could not be read of the cluster.
	Unknown []string `json:"unknown,omitempty"`
	// Simulation is the rollout played to its end; null if no node is drained, or too little
	// is known.
	Simulation *Simulation `json:"simulation"`
}

// A PoolStep is a rollout.Pool as JSON.
type PoolStep struct {
	Name string `json:"name"`
	// Part is "takes", "unchanged", "unselected", "empty", "paused", "deleted", "stopped",
	// "invalid" or "unreadable"; Why says so in words where it needs some.
	Part string `json:"part"`
	Why  string `json:"why,omitempty"`
	// Decision is what MCO does on each node, in words; Drains and Reboots are parts of it,
	// and Reasons say why it drains.
	Decision string   `json:"decision"`
	Drains   bool     `json:"drains"`
	Reboots  bool     `json:"reboots"`
	Reasons  []string `json:"reasons,omitempty"`
	// Nodes are in the order in which MCO takes them.
	Nodes []string `json:"nodes"`
	// MaxUnavailable is how many may be unavailable at once, Capacity how many are updated at
	// once.
	MaxUnavailable int    `json:"maxUnavailable"`
	Capacity       int    `json:"capacity"`
	After          string `json:"after,omitempty"` // the pool that has to be done first
	// Learned is set if Time goes by what a node took in the pool's last rollout.
	Learned bool `json:"learned,omitempty"`
	Time    Span `json:"time"`
}

// An UnmanagedNode is a rollout.Unmanaged as JSON.
type UnmanagedNode struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// A Span is a rollout.Range as JSON, in seconds.
type Span struct {
	MinSeconds float64 `json:"minSeconds"`
	MaxSeconds float64 `json:"maxSeconds"`
}

// A Simulation is a simulation.Result as JSON.
type Simulation struct {
	// Partial is set if time was up before the simulation was done: it then proves nothing.
	Partial bool `json:"partial"`
	// Worst and Best are the courses that the scheduler's choice of nodes can lead to.
	Worst Course `json:"worst"`
	Best  Course `json:"best"`
	// Obstacles are what drains meet, whatever the images.
	Obstacles []Obstacle `json:"obstacles"`
}

// A Course is a simulation.Course as JSON.
type Course struct {
	// Finishes says that all nodes are updated; neither it nor Stalls if nobody can tell.
	Finishes bool `json:"finishes"`
	// Waiting is Course.Waiting of package simulation.
	Waiting []string `json:"waiting,omitempty"`
	Steps   []Step   `json:"steps"`
	Stalls  []Stall  `json:"stalls"`
	// Assured is Course.Assured of package simulation.
	Assured []simulation.Assured `json:"assured,omitempty"`
}

// A Step is a simulation.Step with its text.
type Step struct {
	simulation.Step
	Text string `json:"text"`
}

// A Stall is a simulation.Stall with its text.
type Stall struct {
	simulation.Stall
	Text string `json:"text"`
}

// An Obstacle is a simulation.Obstacle with its text.
type Obstacle struct {
	simulation.Obstacle
	Text string `json:"text"`
}

// forecastDocument returns f as JSON, nil if there is none.
func forecastDocument(f *policy.Forecast) *Forecast {
	if f == nil {
		return nil
	}
	d := &Forecast{Summary: f.String(), Hosted: f.Hosted, Pools: []PoolStep{}, Time: span(f.Time), Recent: f.Recent, Unknown: f.Unknown}
	for _, p := range f.Pools {
		d.Pools = append(d.Pools, poolStep(p))
	}
	for _, u := range f.Unmanaged {
		d.Unmanaged = append(d.Unmanaged, UnmanagedNode(u))
	}
	if s := f.Simulation; s != nil {
		d.Simulation = &Simulation{Partial: s.Partial, Worst: course(s.Worst, s.Certain()), Best: course(s.Best, s.Certain()), Obstacles: []Obstacle{}}
		for _, o := range s.Obstacles {
			d.Simulation.Obstacles = append(d.Simulation.Obstacles, Obstacle{o, o.String()})
		}
	}
	return d
}

func poolStep(p rollout.Pool) PoolStep {
	step := PoolStep{
		Name: p.Name, Part: string(p.Part), Why: p.Why, Decision: p.Decision.String(),
		Drains: p.Decision.Drains, Reboots: p.Decision.Effect() == rollout.Reboots,
		Nodes: []string{}, MaxUnavailable: p.MaxUnavailable, Capacity: p.Capacity, After: p.After, Learned: p.Learned, Time: span(p.Time),
	}
	for _, r := range p.Decision.Reasons {
		step.Reasons = append(step.Reasons, r.String())
	}
	for _, n := range p.Nodes {
		step.Nodes = append(step.Nodes, n.Name)
	}
	return step
}

func span(r rollout.Range) Span { return Span{r.Min.Seconds(), r.Max.Seconds()} }

// course returns c as JSON. What is not certain is not said to finish.
func course(c simulation.Course, certain bool) Course {
	d := Course{Finishes: certain && len(c.Stalls)+len(c.Waiting) == 0 && !c.Undecided, Waiting: c.Waiting, Steps: []Step{}, Stalls: []Stall{}, Assured: c.Assured}
	for _, s := range c.Steps {
		d.Steps = append(d.Steps, Step{s, s.String()})
	}
	for _, s := range c.Stalls {
		d.Stalls = append(d.Stalls, Stall{s, s.String()})
	}
	return d
}
