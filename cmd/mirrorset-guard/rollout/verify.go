package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

func newRolloutVerify() *cobra.Command {
	o := rolloutOptions{outputs: cli.SeveralFormats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check whether every node has what the mirror objects ask for",
		Long: `verify compares registries.conf, policy.json and registries.d in the rendered config that
each node has with what the mirror objects, image policies and the lists of Image cluster
in force ask for, lists the images that pods fail to pull with
the route that their nodes have now, and says what is left to do.

Exit code 0: all is well. 1: it is not. 2: not determined, or wrong usage.`,
		Example: `  mirrorset-guard rollout verify
  mirrorset-guard rollout verify --from must-gather/ -o yaml`,
		Args: withoutArguments,
		RunE: cli.Runs(o.reading(o.runVerify)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runVerify(ctx context.Context, s cli.Streams, targets []cli.Target, view *environment.Rollout) error {
	set, err := view.Source.Mirrors(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the mirror objects could not be read: this requires the rights of the ClusterRole cluster-reader: %w", err)
	case err != nil:
		return err
	}
	v := status.Verify(status.VerifyInput{Input: view.Input, Mirrors: set, Incomplete: view.Problems})
	for i := range v.Left {
		v.Left[i].Command = s.Program.In(v.Left[i].Command)
	}
	err = printEach(ctx, s, targets, func(w io.Writer, output cli.Output) error {
		if output.Format == "table" {
			return printVerification(w, v)
		}
		return output.Write(w, rollouts.VerificationDocument(v))
	})
	switch {
	case err != nil:
		return err
	case v.Result == status.NotWell:
		return cli.ErrDenied
	case v.Result == status.Unknown:
		return errors.New("not determined whether all is well")
	default:
		return nil
	}
}

func printVerification(w io.Writer, v status.Verification) error {
	var b strings.Builder
	well := 0
	for _, n := range v.Nodes {
		if n.Result == status.Well {
			well++
		}
	}
	fmt.Fprintf(&b, "%s of %s the registries.conf and policy.json that the mirror objects ask for.\n", text.Number(well), text.Plural(len(v.Nodes), "node has", "nodes have"))
	if v.Rejected != "" {
		fmt.Fprintf(&b, "\n%s\n", text.Lines(v.Rejected))
	}
	for _, group := range alike(v.Nodes) {
		printNodeConfigs(&b, group)
	}
	for _, f := range v.Pulls {
		printPullFailure(&b, f)
	}
	printTasks(&b, v.Left)
	printList(&b, "Not known", v.Unknown)
	printList(&b, "Not compared", v.NotCompared)
	switch {
	case v.Result != status.Well:
	case len(v.NotCompared) > 0:
		b.WriteString("\nAll is well, apart from what was not compared.\n")
	default:
		b.WriteString("\nAll is well.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// alike groups the nodes that are not well by their fault, which is most often the same for all nodes
// of a pool.
func alike(nodes []status.NodeConfig) [][]status.NodeConfig {
	type key struct{ pool, config, why string }
	rows := map[key]int{}
	var groups [][]status.NodeConfig
	for _, n := range nodes {
		if n.Result != status.NotWell || n.Why == "" {
			continue
		}
		k := key{n.Pool, n.Config, n.Why}
		row, known := rows[k]
		if !known {
			row = len(groups)
			rows[k] = row
			groups = append(groups, nil)
		}
		groups[row] = append(groups[row], n)
	}
	return groups
}

// printNodeConfigs prints the common fault of nodes.
func printNodeConfigs(w io.Writer, nodes []status.NodeConfig) {
	names := convert.Each(nodes, func(n status.NodeConfig) string { return n.Node })
	n := nodes[0]
	title := fmt.Sprintf("Node %s (pool %s, %s)", n.Node, n.Pool, cli.OrNone(n.Config))
	if len(names) > 1 {
		title = fmt.Sprintf("%s of pool %s with %s: %s", text.Count(len(names), "node"), n.Pool, cli.OrNone(n.Config), text.Names(names, maxWaiting))
	}
	fmt.Fprintln(w)
	cli.WriteLines(w, cli.Wrapped(text.Line(title), cli.TableWidth), 0)
	lines := []string{n.Why}
	for _, d := range n.Differences {
		lines = append(lines, fmt.Sprintf("%s: the node has: %s; the objects ask for: %s", cli.InFile(d.File, d.Scope), cli.OrNone(d.Before), cli.OrNone(d.After)))
	}
	writeIndented(w, safeLines(text.First(lines, cli.MaxDifferences, "entry")))
}

func printPullFailure(w io.Writer, f status.PullFailure) {
	fmt.Fprintf(w, "\nImage %s cannot be pulled (%s)\n", text.Line(text.ShortDigests(f.Image)), text.Line(f.Reason))
	lines := []string{"by " + text.Names(f.Pods, cli.MaxDifferences)}
	if f.RouteUnknown != "" {
		lines = append(lines, "its route is not known: "+f.RouteUnknown)
	}
	for i, place := range f.Route {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, text.ShortDigests(place)))
	}
	writeIndented(w, safeLines(lines))
}

// printTasks writes each command on a line of its own, to be copied.
func printTasks(w io.Writer, tasks []status.Task) {
	if len(tasks) == 0 {
		return
	}
	fmt.Fprintf(w, "\nLeft to do\n")
	for _, task := range tasks {
		cli.WriteLines(w, cli.Wrapped("- "+text.Line(task.What), cli.TableWidth-2*cli.Margin), cli.Margin)
		if task.Command != "" {
			fmt.Fprintf(w, "      %s\n", text.Line(task.Command))
		}
	}
}

func printList(w io.Writer, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	for _, line := range lines {
		cli.WriteLines(w, cli.Wrapped("- "+text.Line(line), cli.TableWidth-2*cli.Margin), cli.Margin)
	}
}

func safeLines(lines []string) []string {
	return convert.Each(lines, text.Line)
}
