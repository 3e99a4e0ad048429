package simulation

import "github.com/mirrorset-guard/mirrorset-guard/policy/rollout"

type Pull int

const (
	PullUnknown Pull = iota
	PullWorks
	PullFails
)

type Input struct {
	Cluster  rollout.Cluster
	Forecast rollout.Forecast
	Pull     func(image, pool string, updated bool) Pull
	Stop     func() bool
}
type Result struct {
	Best, Worst Course
	Obstacles   []Obstacle
	Partial     bool
}
type (
	Course struct {
		Steps  []Step
		Stalls []Stall
	}
	Stall struct {
		Pool, Node, Image string
		ByImage           bool
	}
	Obstacle struct{}
	Step     struct{}
)

func (Stall) String() string    { return "" }
func (Obstacle) String() string { return "" }
func (Step) String() string     { return "" }
func Run(Input) Result          { return Result{} }
