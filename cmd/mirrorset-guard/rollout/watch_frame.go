package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/terminal"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
)

// A frame is a view of a watch as a screen shows it.
type frame struct {
	watch.View
	program cli.Program // for its title
}

// newFrame returns the frame of v. Pools of which there is something to see come first.
func newFrame(v watch.View, program cli.Program) frame {
	v.Pools = slices.Clone(v.Pools)
	slices.SortStableFunc(v.Pools, func(a, b progress.Pool) int { return cmp.Compare(quiet(a), quiet(b)) })
	return frame{v, program}
}

func quiet(p progress.Pool) int {
	if p.Active || !p.Degraded.IsZero() {
		return 0
	}
	return 1
}

// lines returns the lines of a screen.
func (v frame) lines(events []progress.Event, width, height int) []string {
	head := v.head(width)
	foot := []string{"Ctrl-C ends the watch; the rollout goes on."}
	rest := height - len(head) - len(foot) - 2 // an empty line before each of the parts below
	lines := append(head, "")
	lines = append(lines, v.poolLines(width, max(rest-rest/3, 1))...)
	if latest := latestLines(events, width, height-len(lines)-len(foot)-1); len(latest) > 0 {
		lines = append(append(lines, ""), latest...)
	}
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	return append(lines[:max(height-len(foot), 0)], foot...)
}

// latestLines shows as many of the latest events as fit into height, and nothing of others.
func latestLines(events []progress.Event, width, height int) []string {
	const stamp = len(time.TimeOnly) + 2
	var lines []string
	for _, e := range slices.Backward(events) {
		var of []string
		for i, line := range cli.Wrapped(eventText(e), width-stamp) {
			before := strings.Repeat(" ", stamp)
			if i == 0 {
				before = e.Time.Format(time.TimeOnly) + "  "
			}
			of = append(of, before+line)
		}
		if len(of)+len(lines) > height {
			break
		}
		lines = append(of, lines...)
	}
	return lines
}

// maxState is how many lines the state of all has.
const maxState = 3

// head says what is watched, and what is the matter with all of it.
func (v frame) head(width int) []string {
	title, lasts := v.program.In("mirrorset-guard rollout watch"), progress.Short(v.Lasts)
	lines := []string{title + strings.Repeat(" ", max(width-len(title)-len(lasts), 1)) + lasts}
	state := ""
	switch {
	case v.Away != "":
		state = text.Line(v.Away)
	case v.Reach.Missing != "":
		state = "Waiting: " + v.Reach.Missing
	case v.Reach.Unknown != "":
		state = "Not known: " + v.Reach.Unknown
	}
	lines = append(lines, text.First(cli.Wrapped(state, width), maxState, "")...)
	if v.Operator == nil {
		return lines
	}
	for _, c := range v.Operator.Conditions {
		if c.Type == "Degraded" && c.Status != "False" || c.Type == "Available" && c.Status != "True" {
			lines = append(lines, text.Line(fmt.Sprintf("ClusterOperator machine-config: %s %s: %s", c.Type, c.Status, cmp.Or(c.Message, c.Reason))))
		}
	}
	return lines
}

// maxUnderWay is how many nodes of a pool are shown that are under way.
const maxUnderWay = 5

// poolLines shows the pools in at most height lines, those without a rollout in one line each.
func (v frame) poolLines(width, height int) []string {
	named := 0
	for _, p := range v.Pools {
		named = max(named, terminal.Width(text.Line(p.Name)))
	}
	named = min(named, maxPoolName)
	var lines []string
	for i, p := range v.Pools {
		lines = append(lines, barLine(p, named))
		lines = append(lines, v.detailLines(p, width)...)
		if left := len(v.Pools) - i - 1; left > 0 && len(lines) >= height {
			return append(lines[:max(height-1, 0)], fmt.Sprintf("and %s", text.Count(left, "more pool")))
		}
	}
	return lines[:min(len(lines), height)]
}

const (
	maxPoolName = 16
	barWidth    = 24
)

// barLine shows a pool as a bar: "#" for nodes that are done, ">" for those under way, "!" for
// degraded ones, "?" for those of which nothing is known, "." for those that wait.
func barLine(p progress.Pool, named int) string {
	name := terminal.Cut(text.Line(p.Name), named)
	name += strings.Repeat(" ", max(named-terminal.Width(name), 0))
	total := p.Counts.Total()
	counts := []string{fmt.Sprintf("%d of %d done", p.Counts[progress.Done], total)}
	for _, stage := range []progress.Stage{progress.Updating, progress.Draining, progress.Drained, progress.Rebooting, progress.Degraded, progress.Waiting, progress.Unknown} {
		if n := p.Counts[stage]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, stage))
		}
	}
	return fmt.Sprintf("%s [%s] %s", name, bar(p.Counts, total), strings.Join(counts, ", "))
}

// bar gives each kind of node its share of the width, and one column at least.
func bar(counts progress.Counts, total int) string {
	shares := []struct {
		n    int
		mark string
	}{
		{counts[progress.Done], "#"},
		{counts[progress.Updating] + counts[progress.Draining] + counts[progress.Drained] + counts[progress.Rebooting], ">"},
		{counts[progress.Degraded], "!"},
		{counts[progress.Unknown], "?"},
	}
	var b strings.Builder
	for _, s := range shares {
		if s.n > 0 {
			b.WriteString(strings.Repeat(s.mark, max(s.n*barWidth/total, 1)))
		}
	}
	waiting := "."
	if total == 0 {
		waiting = " "
	}
	drawn := b.String()
	if len(drawn) < barWidth {
		return drawn + strings.Repeat(waiting, barWidth-len(drawn))
	}
	// What is under way or degraded is seen, however many are done.
	return drawn[len(drawn)-barWidth:]
}

// detailLines say what a bar cannot.
func (v frame) detailLines(p progress.Pool, width int) []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, strings.Repeat(" ", cli.Margin)+text.Line(fmt.Sprintf(format, args...)))
	}
	if p.Active {
		left := ""
		if p.Remaining.Max > 0 {
			left = fmt.Sprintf(", %s left", p.Remaining)
		}
		add("%s: %s%s", p.State, cmp.Or(p.Target, "(none)"), left)
	}
	say := func(format string, args ...any) {
		for _, line := range cli.Wrapped(fmt.Sprintf(format, args...), width-2*cli.Margin) {
			add("%s", line)
		}
	}
	switch {
	case p.Stall != nil:
		say("has not moved for %s: %s", progress.Short(p.Unmoved), p.Stall.Cause)
	case p.Suspect != "":
		say("has not moved for %s; as it seems: %s", progress.Short(p.Unmoved), p.Suspect)
	case !p.Degraded.IsZero():
		add("degraded: %s", p.Trouble())
	case p.Held != "":
		add("no node is taken: %s", p.Held)
	case p.Paused != nil:
		add("%s", p.Paused.Lines[0])
	case p.Unmoved >= time.Minute:
		add("has not moved for %s", progress.Short(p.Unmoved))
	}
	for i, n := range p.UnderWay {
		if i == maxUnderWay {
			add("and %s", text.Count(len(p.UnderWay)-i, "more node"))
			break
		}
		add("%s %s, %s", n.Name, n.Words(), progress.Short(v.Now.Sub(n.Entered)))
	}
	return lines
}
