package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
	"github.com/mirrorset-guard/mirrorset-guard/review/whatif"
)

// mirrorOptions are the choices of the commands deletion and keep.
type mirrorOptions struct {
	cli.ReviewFlags
	outputs cli.Outputs
	timeout time.Duration
	// release is the release whose images count, too.
	release string
}

func (o *mirrorOptions) addFlags(flags *pflag.FlagSet) {
	o.AddInForce(flags)
	o.outputs.AddFlags(flags)
	addTimeout(flags, &o.timeout)
	addRelease(flags, &o.release, "count the images of a release, too")
}

func newDeletion() *cobra.Command {
	o := mirrorOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "junit", "markdown")}
	cmd := &cobra.Command{
		Use:   "deletion FILE",
		Short: "Ask whether a deletion at a mirror would break a pull",
		Long: `deletion judges a deletion at registries before it is made: which pulls of this cluster need
what would be gone. FILE is oc-mirror's delete-images.yaml, a file of references, or -
(standard input); references may stand in its place. With --release, the images of that
release count, too.

Exit code 0: no pull breaks. 1: one would. 2: no verdict, or wrong usage.`,
		Example: `  mirrorset-guard deletion working-dir/delete/delete-images.yaml
  mirrorset-guard deletion mirror.example.com/shop/cart:v1 --from cluster.yaml
  mirrorset-guard deletion delete-images.yaml --release next`,
		Args: cli.SomeArgs("a file of what is to be deleted, - (standard input), or references"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := deleteList(cli.StreamsOf(cmd), args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), cli.StreamsOf(cmd), func(ctx context.Context, s cli.Streams, targets []cli.Target, r *review.Reviewer, coming review.Coming) error {
				return printDeletion(ctx, s, targets, r, list, coming)
			})
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newKeep() *cobra.Command {
	o := mirrorOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "refs")}
	cmd := &cobra.Command{
		Use:   "keep REGISTRY[/PATH]",
		Short: "Print what a deletion at a mirror has to spare",
		Long: `keep prints what nodes may ask for below REGISTRY[/PATH], which a deletion there has to spare,
and the tags by which sync keeps what is pulled by digest.
-o refs prints references, a line each, and nothing at all where the list may not be
complete. With --release, the images of that release count, too.

Exit code 0: the list is complete. 2: it may not be, or wrong usage.`,
		Example: `  mirrorset-guard keep mirror.example.com/shop -o refs > keep.txt
  mirrorset-guard keep mirror.example.com/openshift --release next -o refs`,
		Args: cli.OneArg("a registry, namespace or repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cli.StreamsOf(cmd), func(ctx context.Context, s cli.Streams, targets []cli.Target, r *review.Reviewer, coming review.Coming) error {
				return printKeep(ctx, s, targets, r, args[0], coming)
			})
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// run opens the world and has the answer printed.
func (o *mirrorOptions) run(ctx context.Context, streams cli.Streams, answer func(context.Context, cli.Streams, []cli.Target, *review.Reviewer, review.Coming) error) error {
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return err
	}
	defer opened.World.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	coming, err := o.coming(ctx, opened.World, &opened.Reviewer)
	if err != nil {
		return cli.AboutRelease(o.release, err)
	}
	return answer(ctx, streams, targets, &opened.Reviewer, coming)
}

// coming reads what the cluster will pull by an update to the release that the flag names.
func (o *mirrorOptions) coming(ctx context.Context, w *environment.World, reviewer *review.Reviewer) (review.Coming, error) {
	if o.release == "" {
		return review.Coming{}, nil
	}
	choice, err := target.Find(w.Cluster.RolloutObjects().Version, o.release)
	if err != nil {
		return review.Coming{}, err
	}
	return judge.Coming(ctx, judge.World{Cluster: w.Cluster, Reviewer: reviewer, Client: w.Registries.Client}, choice)
}

// deleteList reads a file or, where there is none of that name, takes the arguments as references.
func deleteList(streams cli.Streams, args []string) (*whatif.DeleteList, error) {
	if _, err := os.Stat(args[0]); args[0] != "-" && errors.Is(err, os.ErrNotExist) {
		list, wrong := whatif.DeleteReferences(args)
		if wrong != nil {
			return nil, fmt.Errorf("deletion: there is no file %s, and as a reference: %w", text.Line(args[0]), wrong)
		}
		return list, nil
	}
	if len(args) > 1 {
		return nil, fmt.Errorf("deletion: give a file, or references: not %s and %s", args[0], text.Names(args[1:], 1))
	}
	file, err := cli.OpenInput(args[0], streams)
	if err != nil {
		return nil, fmt.Errorf("deletion: %w", err)
	}
	defer file.Close()
	name := args[0]
	if name == "-" {
		name = "standard input"
	}
	list, err := whatif.ReadDeleteList(name, file)
	if err != nil {
		return nil, fmt.Errorf("deletion: %w", err)
	}
	return list, nil
}

func printDeletion(ctx context.Context, streams cli.Streams, targets []cli.Target, reviewer *review.Reviewer, list *whatif.DeleteList, coming review.Coming) error {
	d, err := whatif.Judge(ctx, reviewer, list, coming)
	if err != nil {
		return err
	}
	err = cli.Print(ctx, streams, targets, cli.Answer{Answer: d.Answer, Document: func() any { return d.Document() }})
	if err == nil && !d.Allowed {
		return cli.ErrDenied
	}
	return err
}

func printKeep(ctx context.Context, streams cli.Streams, targets []cli.Target, reviewer *review.Reviewer, place string, coming review.Coming) error {
	list, err := whatif.Keep(ctx, reviewer, place, coming)
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	if len(list.Unknown) > 0 { // an image missing in an incomplete list would be deleted, and lost
		targets = slices.DeleteFunc(targets, func(t cli.Target) bool { return t.Format == "refs" })
	}
	err = cli.Print(ctx, streams, targets, cli.Answer{Answer: list.Answer, Document: func() any { return list.Document() }, Formats: map[string]func(io.Writer) error{
		"refs": func(w io.Writer) error {
			_, err := io.WriteString(w, list.Lines())
			return err
		},
	}})
	if err == nil && len(list.Unknown) > 0 {
		return fmt.Errorf("keep: the list may not be complete: %s", text.Names(list.Unknown, 3))
	}
	return err
}
