package rollout

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
)

// printLines writes a line for each event.
func printLines(out io.Writer, events []progress.Event) error {
	for _, e := range events {
		line := eventText(e)
		if e.Type == watch.Away {
			line += " " + text.Line(e.Causes[0].Symptom)
		}
		if _, err := fmt.Fprintln(out, e.Time.UTC().Format(time.RFC3339), line); err != nil {
			return err
		}
	}
	return nil
}

// eventText says what has happened in a line.
func eventText(e progress.Event) string {
	line := e.Message
	switch {
	case e.Node != "":
		line = fmt.Sprintf("node %s (pool %s) %s", e.Node, e.Pool, line)
	case e.Pool != "":
		line = fmt.Sprintf("pool %s %s", e.Pool, line)
	}
	if e.Type == progress.NodeDone {
		line += fmt.Sprintf("; %d of %d", e.Counts[progress.Done], e.Counts.Total())
	}
	if len(e.Objects) > 0 {
		line += fmt.Sprintf(" (%s)", text.Names(e.Objects, maxObjects))
	}
	return text.Line(line)
}

// maxObjects is how many mirror objects a line names.
const maxObjects = 3

// printJSON writes an object for each event, a line each.
func printJSON(out io.Writer, events []progress.Event) error {
	for _, e := range events {
		if err := cli.WriteLine(out, rollouts.EventDocument(e)); err != nil {
			return err
		}
	}
	return nil
}

// inWords returns a function that writes events to the user, in which the program is named as the user calls it.
func inWords(print func(io.Writer, []progress.Event) error, s cli.Streams) func([]progress.Event) error {
	return func(events []progress.Event) error {
		named := slices.Clone(events)
		for i := range named {
			named[i].Message = s.Program.In(named[i].Message)
		}
		return print(s.Out, named)
	}
}
