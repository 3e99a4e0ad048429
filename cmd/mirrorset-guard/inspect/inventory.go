package inspect

import (
	"context"
	"fmt"
	stdio "io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// inventoryOptions are the choices of the command inventory.
type inventoryOptions struct {
	world     cli.WorldFlags
	outputs   cli.Outputs
	selection review.Selection
}

func newInventory() *cobra.Command {
	o := inventoryOptions{outputs: cli.SeveralFormats("table", "wide", "json", "yaml", "refs")}
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "List the images that the cluster may have to pull, and what uses them",
		Example: `  mirrorset-guard inventory --registry quay.io -o wide
  mirrorset-guard inventory -n shop -o json
  mirrorset-guard inventory --unused -o refs
  mirrorset-guard inventory --rescue`,
		Args: cli.NoArgs,
		RunE: cli.Runs(o.run),
	}
	o.world.AddFlags(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	addSelectionFlags(cmd.Flags(), &o.selection)
	return cmd
}

func addSelectionFlags(flags *pflag.FlagSet, s *review.Selection) {
	flags.StringVarP(&s.Namespace, "namespace", "n", "", "only images that something in this namespace uses")
	flags.StringVar(&s.Registry, "registry", "", "only images of this registry or below this scope (quay.io, quay.io/team)")
	flags.BoolVar(&s.Unused, "unused", false, "only images that no pod runs now: named by templates, settings or history alone")
	flags.BoolVar(&s.Rescue, "rescue", false, "only images for the day something is wrong: must-gather, what oc debug starts, support's tools, and the guard's own")
}

func (o *inventoryOptions) run(ctx context.Context, io cli.Streams) error {
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	w, err := o.world.Open(ctx, io)
	if err != nil {
		return err
	}
	defer w.Close()
	gaps := slices.DeleteFunc(slices.Clone(w.Cluster.Gaps()), policy.Gap.IsOfNodes)
	images, err := w.Cluster.Images(ctx)
	if err != nil {
		return err
	}
	all := images.ByReference()
	selected := o.selection.Of(all)
	if o.selection.Rescue {
		for _, u := range plan.UnnamedIn(images) {
			fmt.Fprintf(io.Err, "Note: nothing names %s, which %s. Where nodes look for it: mirrorset-guard explain %[1]s --probe\n", u.Ref, u.Starts)
		}
	}
	isTable := func(t cli.Target) bool { return t.Format == "table" || t.Format == "wide" }
	if len(selected) == 0 && slices.ContainsFunc(targets, isTable) {
		io.Note("nothing names any such image")
	}
	document := func() any { return review.InventoryDocument(selected) }
	err = cli.Print(ctx, io, targets, cli.Answer{Answer: func() *answer.Answer { return imagesTable(selected) }, Document: document, Formats: map[string]func(stdio.Writer) error{
		"wide": func(w stdio.Writer) error {
			_, err := stdio.WriteString(w, wideTable(selected).Text(cli.LookOf(w)))
			return err
		},
		"refs": func(w stdio.Writer) error {
			io.Out = w
			return printRefs(io, selected)
		},
	}})
	if err == nil && len(gaps) > 0 {
		err = fmt.Errorf("inventory: the list may not be complete: %s", policy.GapNames(gaps))
	}
	return err
}
