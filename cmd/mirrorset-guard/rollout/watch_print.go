package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/terminal"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
)

// printer returns the printer for -o and standard output.
func (o *watchOptions) printer(s cli.Streams) (watch.Display, error) {
	switch o.output.Format {
	case "json":
		return jsonPrinter{s.Out}, nil
	case "auto":
		if screen, ok := terminal.Open(s.Out); ok {
			return &screenPrinter{screen: screen, out: s.Out, program: s.Program}, nil
		}
		return linePrinter{s.Out}, nil
	case "lines":
		return linePrinter{s.Out}, nil
	default:
		return nil, fmt.Errorf("--output %s: this command cannot write it", o.output.Format)
	}
}

// A linePrinter writes a line for each event.
type linePrinter struct{ out io.Writer }

func (p linePrinter) Print(events []progress.Event) error {
	for _, e := range events {
		line := eventText(e)
		if e.Type == watch.Away { // a screen says it elsewhere, as long as it lasts
			line += " " + text.Line(e.Causes[0].Symptom)
		}
		if _, err := fmt.Fprintln(p.out, e.Time.UTC().Format(time.RFC3339), line); err != nil {
			return err
		}
	}
	return nil
}

func (p linePrinter) Run(context.Context) {}

func (p linePrinter) Draw(watch.View) error { return nil }

func (p linePrinter) Close(watch.View) error { return nil }

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

// A jsonPrinter writes an object for each event, a line each.
type jsonPrinter struct{ out io.Writer }

func (p jsonPrinter) Print(events []progress.Event) error {
	for _, e := range events {
		data, err := json.Marshal(rollouts.EventDocument(e))
		if err != nil {
			return err
		}
		if _, err := p.out.Write(append(text.JSON(data), '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (p jsonPrinter) Run(context.Context) {}

func (p jsonPrinter) Draw(watch.View) error { return nil }

func (p jsonPrinter) Close(watch.View) error { return nil }

// A screenPrinter draws on a terminal.
type screenPrinter struct {
	screen  *terminal.Screen
	out     io.Writer
	program cli.Program
	last    []progress.Event
}

// maxKept is how many events are kept, to be drawn or printed at the end.
const maxKept = 50

func (p *screenPrinter) Print(events []progress.Event) error {
	p.last = append(p.last, events...)
	if n := len(p.last) - maxKept; n > 0 {
		p.last = slices.Clone(p.last[n:])
	}
	return nil
}

func (p *screenPrinter) Run(ctx context.Context) { p.screen.Run(ctx) }

func (p *screenPrinter) Draw(v watch.View) error {
	width, height := p.screen.Size()
	return p.screen.Draw(newFrame(v, p.program).lines(p.last, width, height))
}

// Close leaves on the terminal, as lines, what the screen showed last.
func (p *screenPrinter) Close(v watch.View) error {
	if err := p.screen.Close(); err != nil {
		return err
	}
	for _, line := range newFrame(v, p.program).poolLines(cli.TableWidth, len(v.Pools)) {
		fmt.Fprintln(p.out, line)
	}
	return linePrinter{p.out}.Print(p.last)
}

// inWords is a Display whose events name the program as the user calls it.
type inWords struct {
	watch.Display
	program cli.Program
}

func (p inWords) Print(events []progress.Event) error {
	named := slices.Clone(events)
	for i := range named {
		named[i].Message = p.program.In(named[i].Message)
	}
	return p.Display.Print(named)
}
