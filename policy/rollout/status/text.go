package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Trouble names the degraded parts of p, in a clause.
func (p *Pool) Trouble() string {
	var parts []string
	for _, n := range p.Left {
		if n.State == NodeDegraded {
			parts = append(parts, fmt.Sprintf("node %s: %s", n.Name, cmp.Or(n.Reason, "it does not say why")))
		}
	}
	for _, c := range p.Conditions {
		if c.Type != "Degraded" && (c.Type != "NodeDegraded" || len(parts) == 0) {
			parts = append(parts, fmt.Sprintf("%s: %s", c.Type, cmp.Or(c.Message, c.Reason, "it does not say why")))
		}
	}
	for _, c := range p.Conditions {
		if len(parts) == 0 && c.Type == "Degraded" {
			return text.Line(cmp.Or(c.Message, c.Reason, "it does not say why"))
		}
	}
	if len(parts) == 0 {
		return "it does not say why"
	}
	return text.Line(strings.Join(text.First(parts, troubles, ""), "; "))
}

// troubles is how many Trouble names.
const troubles = 3

// Progress says how many nodes are done, and how long the rest takes.
func (p *Pool) Progress() string {
	progress := fmt.Sprintf("%d of %s done", p.done(), text.Plural(p.Machines, "node is", "nodes are"))
	switch {
	case p.Remaining.Max > 0:
		progress += fmt.Sprintf(", the rest takes %s", p.Remaining)
	case p.done() == p.Machines && p.Unavailable > 0:
		progress += fmt.Sprintf(", and %s", text.Plural(p.Unavailable, "is not available", "are not available"))
	}
	return progress
}

// done is how many nodes have what they are to have. MCO counts a little later.
func (p *Pool) done() int {
	if len(p.Nodes) != p.Machines {
		return p.Updated
	}
	done := len(p.Nodes)
	for _, n := range p.Left {
		if n.State != NodeUnavailable {
			done--
		}
	}
	return done
}

// Lines say what there is to say of a pool beside its counts.
func (p *Pool) Lines() []string {
	var lines []string
	if p.Paused != nil {
		lines = append(lines, p.Paused.Lines...)
	}
	if p.State == PoolDegraded {
		lines = append(lines, "degraded: "+p.Trouble())
	}
	if p.Held != "" {
		lines = append(lines, "no node is taken: "+p.Held)
	}
	if p.From != "" {
		lines = append(lines, p.changeLines()...)
	}
	return Printable(lines)
}

// Printable returns lines that do nothing but be shown, indented as they were.
func Printable(lines []string) []string {
	for i, line := range lines {
		rest := strings.TrimLeft(line, " ")
		lines[i] = line[:len(line)-len(rest)] + text.Line(rest)
	}
	return lines
}

// Shown is how many changes of a kind are named.
const Shown = 6

// changeLines say what the target of a pool brings.
func (p *Pool) changeLines() []string {
	lines := []string{fmt.Sprintf("from %s to %s:", p.From, cmp.Or(p.Target, "(none)"))}
	c := p.Changes
	if c == nil {
		return append(lines, "  what differs is not known")
	}
	if c.IsEmpty() {
		return append(lines, "  nothing differs")
	}
	var registries []string
	for _, r := range c.Registries {
		registries = append(registries, fmt.Sprintf("  registries.conf: %s: %s, before: %s", r.Scope, cmp.Or(r.After, "no entry"), cmp.Or(r.Before, "no entry")))
	}
	lines = append(lines, text.First(registries, Shown, "entry of registries.conf")...)
	if len(c.Files) > 0 {
		lines = append(lines, "  other files: "+text.Names(c.Files, Shown))
	}
	if len(c.Units) > 0 {
		lines = append(lines, "  units: "+text.Names(c.Units, Shown))
	}
	for _, s := range c.System {
		lines = append(lines, "  "+s)
	}
	pace := "one at a time"
	switch {
	case p.AtOnce == 0:
		pace = "none for now, as others are not available"
	case p.AtOnce > 1:
		pace = fmt.Sprintf("up to %d at a time", p.AtOnce)
	}
	return append(lines, fmt.Sprintf("  a node %s, %s", p.Action, pace))
}

// String says in a line what a node waits for.
func (n *Node) String() string {
	parts := []string{string(n.State)}
	if n.Reason != "" {
		parts[0] += ": " + n.Reason
	}
	if n.Unavailable != "" && !n.IsUnderWay() {
		parts = append(parts, n.Unavailable)
	}
	if says := n.Report.State; says != "" && says != "Done" && says != "Working" && n.State != NodeDegraded {
		parts = append(parts, "its daemon says "+says)
	}
	return text.Line(strings.Join(parts, "; "))
}

// OnlyWaits reports whether there is nothing to say of a node but that it waits for its turn.
func (n *Node) OnlyWaits() bool {
	return n.State == NodeWaits && n.Unavailable == "" && n.Reason == "" && n.Cordoned == nil && len(n.Conditions) == 0
}

// Lines say more of a node.
func (n *Node) Lines(now time.Time) []string {
	var lines []string
	if n.Since != nil {
		lines = append(lines, "its update began "+When(*n.Since, now))
	}
	if n.DrainAsked != "" && n.DrainDone != n.DrainAsked {
		lines = append(lines, fmt.Sprintf("asked for %s, done is %s", n.DrainAsked, cmp.Or(n.DrainDone, "nothing")))
	}
	if c := n.Cordoned; c != nil {
		line := "cordoned"
		if c.Since != nil {
			line += fmt.Sprintf(" %s by %s", When(*c.Since, now), c.By)
		}
		lines = append(lines, line)
	}
	for _, c := range n.Conditions {
		line := fmt.Sprintf("%s %s", c.Type, c.Status)
		if c.Since != nil {
			line += ", " + When(*c.Since, now)
		}
		if words := cmp.Or(c.Message, c.Reason); words != "" {
			line += ": " + words
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		lines[i] = text.OneLine(line, widest)
	}
	return lines
}

// widest keeps the message of a daemon, which may be the output of a program, from filling
// the screen. JSON has all of it.
const widest = 300

// When returns a time of the cluster's clocks, and how long ago that is. The latter is left
// out where now is not known, or where the clocks do not agree.
func When(t, now time.Time) string {
	when := "at " + t.UTC().Format("2006-01-02 15:04 MST")
	if ago := now.Sub(t).Round(time.Minute); !now.IsZero() && ago > 0 {
		when += fmt.Sprintf(" (%s ago)", strings.TrimSuffix(ago.String(), "0s"))
	}
	return when
}

// StateWord completes "the pool is".
func (p *Pool) StateWord() string {
	if p.State == PoolUnknown {
		return "in a state that is not known"
	}
	return string(p.State)
}
