package review

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// Simulation returns the steps of the simulated rollout for people.
func (r Record) Simulation() string {
	var b strings.Builder
	switch f := r.Forecast; {
	case f == nil:
		b.WriteString("\nNothing was simulated: the nodes are not known.\n")
	case f.Simulation == nil && f.Drains():
		b.WriteString("\nNothing was simulated: pods or nodes could not be read.\n")
	case f.Simulation == nil:
		b.WriteString("\nNothing was simulated: the change drains no node.\n")
	default:
		writeSimulation(&b, *f.Simulation)
	}
	return b.String()
}

func writeSimulation(b *strings.Builder, s simulation.Result) {
	if s.Partial {
		b.WriteString("\nTime was up before the simulation was done; what follows proves nothing.\n")
	}
	b.WriteString("\nStep by step, at worst:\n")
	for i, step := range s.Steps {
		fmt.Fprintf(b, "%3d. %s\n", i+1, text.Line(step.String()))
	}
	for _, stall := range s.Stalls {
		fmt.Fprintf(b, "     Stalled: %s\n", text.Line(stall.String()))
	}
	if len(s.Stalls) == 0 && !s.Partial {
		b.WriteString("     All nodes are updated.\n")
	}
	if len(s.Obstacles) == 0 {
		return
	}
	b.WriteString("\nWhat drains meet:\n")
	for _, o := range s.Obstacles {
		fmt.Fprintf(b, "- %s\n", text.Line(o.String()))
	}
}
