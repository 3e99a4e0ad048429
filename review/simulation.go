package review

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// Simulation returns the steps of the simulated rollout.
func (r Record) Simulation() []answer.Block {
	none := func(why string) []answer.Block {
		return []answer.Block{answer.Paragraphf("Nothing was simulated: %s.", why)}
	}
	f := r.Forecast
	switch {
	case f == nil:
		return none("the nodes are not known")
	case f.Simulation == nil && f.Later == nil && (f.Drains() || f.Besides != nil):
		return none("pods could not be read")
	case f.Simulation == nil && f.Later == nil:
		return none("the change drains no node")
	}
	var blocks []answer.Block
	if f.Simulation != nil {
		blocks = simulated(*f.Simulation, f.Unknown)
	}
	if f.Later != nil {
		for _, b := range f.Besides {
			blocks = append(blocks, answer.Paragraphf("Pool %s as well: %s.", b.Pool, b.Why))
		}
		blocks = append(blocks, simulated(*f.Later, f.Unknown)...)
	}
	return blocks
}

func simulated(s simulation.Result, unknown []string) (blocks []answer.Block) {
	if s.Partial {
		blocks = append(blocks, answer.Paragraphf("Time was up before the simulation was done; what follows proves nothing."))
	}
	steps := answer.List{Title: "Step by step, at worst:"}
	say := func(mark string, line answer.Line) {
		steps.Items = append(steps.Items, answer.Item{Mark: mark, Line: line})
	}
	for i, step := range s.Steps {
		say(fmt.Sprintf("%3d.", i+1), answer.Say(step.String()))
	}
	for _, stall := range s.Stalls {
		say("", answer.Labelled(answer.Bad, "Stalled:", stall.String()))
	}
	for _, clause := range s.Waiting {
		say("", answer.Labelled(answer.Caution, "In the way:", clause))
	}
	switch {
	case s.Finishes() && len(unknown) == 0:
		say("", answer.Line{{Text: "All nodes are updated.", Tone: answer.Good}})
	case s.Finishes():
		say("", answer.Line{{Text: "Whether all nodes are updated is not known: " + strings.Join(unknown, ", ") + " could not be read.", Tone: answer.Unknown}})
	}
	obstacles := answer.List{Title: "What drains meet:"}
	for _, o := range s.Obstacles {
		obstacles.Items = append(obstacles.Items, answer.Item{Mark: "-", Line: answer.Say(o.String())})
	}
	return append(blocks, steps, obstacles)
}
