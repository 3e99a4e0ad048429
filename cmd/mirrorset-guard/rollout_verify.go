package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

func newRolloutVerify() *cobra.Command {
	o := rolloutOptions{output: formats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Say whether every node has what the mirror objects ask for",
		Long: `verify compares the registries.conf in the rendered config that each node has with
what the mirror objects in force ask for, lists the images that pods fail to pull with
the route that their nodes have now, and says what is left to do.

Exit code 0: all is well. 1: it is not. 2: that cannot be told, or wrong usage.`,
		Example: `  mirrorset-guard rollout verify
  mirrorset-guard rollout verify --from must-gather/ -o yaml`,
		Args: cobra.NoArgs,
		RunE: runs(o.reading(o.runVerify)),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutOptions) runVerify(ctx context.Context, s streams, view *rolloutView) error {
	set, err := view.source.Mirrors(ctx)
	if err != nil {
		return err
	}
	v := status.Verify(status.VerifyInput{Input: view.Input, Mirrors: set, Incomplete: view.problems})
	if o.output.format == "table" {
		err = printVerification(s.out, v)
	} else {
		err = o.output.write(s.out, v)
	}
	switch {
	case err != nil:
		return err
	case v.Result == status.NotWell:
		return errDenied
	case v.Result == status.Unknown:
		return errors.New("it cannot be told whether all is well")
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
	fmt.Fprintf(&b, "%s of %s the registries.conf that the mirror objects ask for.\n", text.Number(well), text.Plural(len(v.Nodes), "node has", "nodes have"))
	if v.Rejected != "" {
		fmt.Fprintf(&b, "\n%s\n", text.Lines(v.Rejected))
	}
	for _, n := range v.Nodes {
		printNodeConfig(&b, n)
	}
	for _, f := range v.Pulls {
		printPullFailure(&b, f)
	}
	printTasks(&b, v.Left)
	printList(&b, "Not known", v.Unknown)
	if v.Result == status.Well {
		b.WriteString("\nAll is well.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printNodeConfig(w io.Writer, n status.NodeConfig) {
	if n.Result != status.NotWell || n.Why == "" {
		return
	}
	fmt.Fprintf(w, "\nNode %s (pool %s, %s)\n", text.Line(n.Node), text.Line(n.Pool), orNone(n.Config))
	lines := []string{n.Why}
	for _, d := range n.Differences {
		lines = append(lines, fmt.Sprintf("%s: the node has: %s; the objects ask for: %s", d.Scope, orNone(d.Before), orNone(d.After)))
	}
	writeIndented(w, safeLines(text.First(lines, maxDifferences, "entry")))
}

func printPullFailure(w io.Writer, f status.PullFailure) {
	fmt.Fprintf(w, "\nImage %s cannot be pulled (%s)\n", text.Line(text.ShortDigests(f.Image)), text.Line(f.Reason))
	lines := []string{"by " + text.Names(f.Pods, maxDifferences)}
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
		writeLines(w, wrapped("- "+text.Line(task.What), tableWidth-2*margin), margin)
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
		writeLines(w, wrapped("- "+text.Line(line), tableWidth-2*margin), margin)
	}
}

func safeLines(lines []string) []string {
	safe := make([]string, len(lines))
	for i, line := range lines {
		safe[i] = text.Line(line)
	}
	return safe
}
