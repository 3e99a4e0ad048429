package rollout

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// rolloutOptions are the choices of the commands rollout status, verify and diagnose.
type rolloutOptions struct {
	world   rolloutWorld
	outputs cli.Outputs
}

func (o *rolloutOptions) addFlags(flags *pflag.FlagSet) {
	o.world.addFlags(flags)
	o.outputs.AddFlags(flags)
}

// reading returns run as it is called with the formats and what was read of the cluster or dump.
func (o *rolloutOptions) reading(run func(context.Context, cli.Streams, []cli.Target, *environment.Rollout) error) func(context.Context, cli.Streams) error {
	return func(ctx context.Context, s cli.Streams) error {
		targets, err := o.outputs.Targets()
		if err != nil {
			return err
		}
		view, err := o.world.read(ctx, s)
		if err != nil {
			return err
		}
		defer view.Close()
		return run(ctx, s, targets, view)
	}
}

// printEach has write write the answer in each format.
func printEach(ctx context.Context, s cli.Streams, targets []cli.Target, write func(io.Writer, cli.Output) error) error {
	for _, t := range targets {
		if err := t.Print(ctx, s.Out, func(w io.Writer) error { return write(w, t.Output) }); err != nil {
			return err
		}
	}
	return nil
}

// newRolloutStatus returns the command rollout status, which rollout alone is too.
func newRolloutStatus(use string) *cobra.Command {
	o := rolloutOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "html")}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Show which nodes wait, and for what",
		Long: `status shows how far the Machine Config Operator has come: the operator's own status,
each pool with the changes for its nodes, and each node that is not done with its
state, its drain and the user who cordoned it. It reads a cluster, with the rights of the ClusterRole cluster-reader, or a must-gather (--from).

It does not wait for the end of a rollout, as kubectl rollout status does: rollout watch does.

Exit code 0: status printed. 2: the status could not be determined, or wrong usage.`,
		Example: `  mirrorset-guard rollout
  mirrorset-guard rollout status --from must-gather.tar.gz -o json`,
		Args: withoutArguments,
		RunE: cli.Runs(o.reading(o.runStatus)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runStatus(ctx context.Context, s cli.Streams, targets []cli.Target, view *environment.Rollout) error {
	found := status.Of(view.Input)
	found.Notes = append(found.Notes, view.Problems...)
	return printEach(ctx, s, targets, func(w io.Writer, output cli.Output) error {
		switch output.Format {
		case "table":
			return printStatus(w, s.Program, found, view.Now)
		case "html":
			return page.WriteRolloutStatus(w, rollouts.StatusDocument(found), cli.PageContext(o.world.from, &o.world.cluster, "mirrorset-guard rollout status -o json"))
		default:
			return output.Write(w, rollouts.StatusDocument(found))
		}
	})
}

func printStatus(w io.Writer, program cli.Program, s status.Status, now time.Time) error {
	var b strings.Builder
	printOperator(&b, s.Operator, now)
	printPools(&b, s.Pools)
	for i := range s.Pools {
		p := &s.Pools[i]
		if lines := p.Lines(); len(lines) > 0 {
			fmt.Fprintf(&b, "\nPool %s\n", text.Line(p.Name))
			writeIndented(&b, lines)
		}
	}
	printNodes(&b, s.Pools, now)
	for _, u := range s.Unmanaged {
		fmt.Fprintf(&b, "\nNode %s %s, and keeps what it has.\n", text.Line(u.Node), text.Line(u.Why))
	}
	if s.Remaining.Max > 0 {
		fmt.Fprintf(&b, "\nThe nodes under way take %s more, unless a drain is held up.\n", s.Remaining)
	}
	printNotes(&b, s.Notes)
	if slices.ContainsFunc(s.Pools, func(p status.Pool) bool { return p.Updated < p.Machines }) {
		b.WriteString(program.In("\nThis is the status as of now. To wait for the end: mirrorset-guard rollout watch\n"))
	}
	_, err := io.WriteString(w, cli.StyleOf(w).Paint(b.String()))
	return err
}

// writeIndented writes lines below a heading. A line that is indented already stays so.
func writeIndented(w io.Writer, lines []string) {
	for _, line := range lines {
		rest := strings.TrimLeft(line, " ")
		cli.WriteLines(w, cli.Wrapped(rest, cli.TableWidth-2*cli.Margin), cli.Margin+len(line)-len(rest))
	}
}

func printNotes(w io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(w)
		cli.WriteLines(w, cli.Wrapped("Note: "+text.Line(note), cli.TableWidth), 0)
	}
}

func printOperator(w io.Writer, o *status.Operator, now time.Time) {
	if o == nil {
		return
	}
	fmt.Fprintln(w, "ClusterOperator machine-config")
	for _, c := range o.Conditions {
		line := fmt.Sprintf("%s %s", c.Type, c.Status)
		if c.Since != nil {
			line += " " + strings.Replace(status.When(*c.Since, now), "at", "since", 1)
		}
		// A good condition needs no words.
		if good := map[string]string{"Available": "True", "Progressing": "False", "Degraded": "False"}; good[c.Type] != c.Status {
			line += fmt.Sprintf(": %s: %s", c.Reason, c.Message)
		}
		cli.WriteLines(w, cli.Wrapped(text.Line(line), cli.TableWidth-cli.Margin), cli.Margin)
	}
	fmt.Fprintln(w)
}

func printPools(w io.Writer, pools []status.Pool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POOL\tSTATE\tMACHINES\tUPDATED\tREADY\tUNAVAILABLE\tDEGRADED\tLEFT\tCONFIG")
	for _, p := range pools {
		left := "-"
		if p.Remaining.Max > 0 {
			left = p.Remaining.String()
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", text.Line(p.Name), p.State, p.Machines, p.Updated, p.Ready, p.Unavailable, p.Degraded,
			left, cli.OrNone(p.Target))
	}
	_ = table.Flush() // into a strings.Builder
}

func printNodes(w io.Writer, pools []status.Pool, now time.Time) {
	for i := range pools {
		var waiting []string
		for j := range pools[i].Left {
			n := &pools[i].Left[j]
			if n.OnlyWaits() {
				waiting = append(waiting, n.Name)
				continue
			}
			fmt.Fprintf(w, "\nNode %s (pool %s)\n", text.Line(n.Name), text.Line(pools[i].Name))
			lines := []string{n.String()}
			if n.Current != n.Desired {
				lines = append(lines, fmt.Sprintf("has %s, is to have %s", cli.OrNone(n.Current), cli.OrNone(n.Desired)))
			}
			writeIndented(w, append(lines, n.Lines(now)...))
		}
		printWaiting(w, pools[i].Name, waiting)
	}
}

// maxWaiting is how many nodes that wait are named: there may be thousands.
const maxWaiting = 10

func printWaiting(w io.Writer, pool string, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	one, many := fmt.Sprintf("node of pool %s waits for its turn", text.Line(pool)), fmt.Sprintf("nodes of pool %s wait for their turn", text.Line(pool))
	fmt.Fprintf(w, "\n%s\n", text.Plural(len(nodes), one, many))
	writeIndented(w, []string{text.Line(text.Names(nodes, maxWaiting))})
}
