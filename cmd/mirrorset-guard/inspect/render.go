package inspect

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// renderOptions are the choices of the command render.
type renderOptions struct {
	world  cli.WorldFlags
	change cli.ChangeFlags
	output cli.Output
}

func newRender() *cobra.Command {
	o := renderOptions{output: cli.Formats("toml", "diff", "files", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the files that nodes get, before and after a change",
		Long: `render prints the registries.conf that the Machine Config Operator makes of the
mirror objects: of those in force, or with -f, of those after the change. -o files
adds policy.json, the policies of namespaces and the file of registries.d; -o diff
prints what the change does to all of them.

On standard error it says whether the Machine Config Operator has applied the
objects in force, judging by what MachineConfig ` + mirrors.GeneratedRegistries + `
holds. A difference means that it is still at work, or stuck.

Exit code 0: rendered. 2: the Machine Config Operator would reject the objects, or
wrong usage.`,
		Example: `  mirrorset-guard render
  mirrorset-guard render -f itms.yaml -o diff
  mirrorset-guard render --from must-gather/ -f itms.yaml --delete -o diff`,
		Args: cli.NoArgs,
		RunE: cli.Runs(o.run),
	}
	o.world.AddFlags(cmd.Flags())
	o.change.AddFlags(cmd.Flags())
	o.output.AddFlags(cmd.Flags())
	return cmd
}

func (o *renderOptions) run(ctx context.Context, io cli.Streams) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	w, set, edit, err := proposed(ctx, io, &o.change, o.world.OpenMirrors)
	if err != nil {
		return err
	}
	defer w.Close()
	set.Files = nil // files beside the generated one are not part of it
	// Where the configuration in force is not printed, a change that repairs an invalid one can be rendered.
	needsBefore := len(o.change.Files) == 0 || o.output.Format != "toml" && o.output.Format != "files"
	r, err := review.Render(policy.Change{Before: set, After: edit.Apply(set)}, needsBefore, func() (*mirrors.Applied, error) { return w.Cluster.Applied(ctx) })
	if err != nil {
		return err
	}
	return o.print(io, r)
}

func (o *renderOptions) print(to cli.Streams, r *v1alpha1.Rendering) error {
	var all string
	switch o.output.Format {
	case "toml":
		all = r.After
	case "diff":
		all = r.Diff
		for _, f := range r.Files {
			all += f.Diff
		}
	case "files":
		all = "==> " + mirrors.RegistriesConfPath + " <==\n" + r.After
		for _, f := range r.Files {
			if f.After == "" {
				all += "\n==> " + f.Path + " (removed) <==\n"
				continue
			}
			all += "\n==> " + f.Path + " <==\n" + f.After
		}
	default:
		return o.output.Write(to.Out, r) // MachineConfig is in it
	}
	_, err := io.WriteString(to.Out, all)
	fmt.Fprint(to.Err, comparisonAnswer(r.MachineConfig))
	return err
}
