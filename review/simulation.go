package review

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// Simulation returns the steps of the simulated rollout for people: of the worst course that
// the scheduler may take, and of the best where that ends differently.
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
	if (len(s.Worst.Stalls) > 0) == (len(s.Best.Stalls) > 0) {
		writeCourse(b, "Step by step", s.Worst, s.Partial)
	} else {
		writeCourse(b, "Step by step, at worst", s.Worst, s.Partial)
		writeCourse(b, "Step by step, at best", s.Best, s.Partial)
	}
	if len(s.Obstacles) == 0 {
		return
	}
	b.WriteString("\nWhat drains meet:\n")
	for _, o := range s.Obstacles {
		fmt.Fprintf(b, "- %s\n", text.Line(o.String()))
	}
}

func writeCourse(b *strings.Builder, title string, c simulation.Course, partial bool) {
	fmt.Fprintf(b, "\n%s:\n", title)
	for i, step := range c.Steps {
		fmt.Fprintf(b, "%3d. %s\n", i+1, text.Line(step.String()))
	}
	for _, stall := range c.Stalls {
		fmt.Fprintf(b, "     Stalled: %s\n", text.Line(stall.String()))
	}
	if len(c.Stalls) > 0 && len(c.Assured) > 0 {
		sure := make([]string, len(c.Assured))
		for i, a := range c.Assured {
			sure[i] = a.String()
		}
		fmt.Fprintf(b, "     Wherever pods go, %s.\n", text.Line(strings.Join(sure, "; ")))
	}
	switch {
	case len(c.Stalls) > 0 || partial:
	case c.Undecided:
		b.WriteString("     Not determined whether it can continue: it depends on where pods are scheduled.\n")
	default:
		b.WriteString("     All nodes are updated.\n")
	}
}
