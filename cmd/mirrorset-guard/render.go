package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// renderOptions are the choices of the command render.
type renderOptions struct {
	world  world
	change changeFlags
	output output
}

func newRender() *cobra.Command {
	o := renderOptions{output: formats("toml", "diff", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the registries.conf that nodes get, before and after a change",
		Long: `render prints the registries.conf that the Machine Config Operator makes of the
mirror objects: of those in force, or with -f, of those after the change. -o diff
prints what the change does to it.

On standard error it says whether the Machine Config Operator has applied the
objects in force, by what MachineConfig ` + mirrors.GeneratedRegistries + `
holds. A difference means that it is still at work, or stuck.

Exit code 0: rendered. 2: the Machine Config Operator would reject the objects, or
used wrongly.`,
		Example: `  mirrorset-guard render
  mirrorset-guard render -f itms.yaml -o diff
  mirrorset-guard render --from must-gather/ -f itms.yaml --delete -o diff`,
		Args: cobra.NoArgs,
		RunE: runs(o.run),
	}
	o.world.addFlags(cmd.Flags())
	o.change.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	return cmd
}

func (o *renderOptions) run(ctx context.Context, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	edit, err := o.change.readOptional(io)
	if err != nil {
		return err
	}
	w, err := o.world.openMirrors(ctx, io)
	if err != nil {
		return err
	}
	defer w.close()
	set, err := w.inventory.Mirrors(ctx)
	if err != nil {
		return err
	}
	set.Files = nil // what stands beside the generated file is not part of it
	r, err := newRendering(set, edit.Apply(set), o.needsBefore())
	if err != nil {
		return err
	}
	r.MachineConfig = r.compare(ctx, set, w.inventory)
	return o.print(io, r)
}

// needsBefore reports whether the configuration in force is printed. Where it is
// not, a change that repairs an invalid one can be rendered.
func (o *renderOptions) needsBefore() bool {
	return len(o.change.files) == 0 || o.output.format != "toml"
}

func (o *renderOptions) print(to streams, r *rendering) error {
	var err error
	switch o.output.format {
	case "toml":
		_, err = io.WriteString(to.out, r.After)
	case "diff":
		_, err = io.WriteString(to.out, r.Diff)
	default:
		return o.output.write(to.out, r) // MachineConfig is in it
	}
	fmt.Fprint(to.err, r.MachineConfig.text())
	return err
}

// A rendering is registries.conf before and after a change (kind Rendering).
type rendering struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Before and After are TOML. They are equal without a change.
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
	// MachineConfig compares the objects in force with what nodes are given.
	MachineConfig comparison `json:"machineConfig"`

	inForce  *mirrors.Table // nil if rejected
	rejected error
}

// newRendering renders both sides. A rejection of the first one is an error only
// if it is needed.
func newRendering(before, after mirrors.Set, needsBefore bool) (*rendering, error) {
	r := &rendering{APIVersion: review.APIVersion, Kind: "Rendering"}
	was, err := newSide(before, "in force")
	if err != nil && needsBefore {
		return nil, err
	}
	r.inForce, r.rejected = was.table, err
	is, err := newSide(after, "after the change")
	if err != nil {
		return nil, err
	}
	if r.After, err = is.registriesConf(); err != nil {
		return nil, err
	}
	if r.rejected != nil {
		return r, nil
	}
	if r.Before, err = was.registriesConf(); err != nil {
		return nil, err
	}
	r.Diff, err = difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: splitLines(r.Before), FromFile: "registries.conf in force",
		B: splitLines(r.After), ToFile: "registries.conf after the change",
		Context: 3,
	})
	return r, err
}

// splitLines keeps the line feeds, and unlike difflib's function of that name
// makes no line of the nothing after the last one.
func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }

// registriesConf returns the file that MCO writes, encoded by the same library
// from the same type. MCO's order of the entries, which means nothing to a node,
// comes from the lists it goes through; here they are sorted by scope, so that a
// diff shows what has changed.
func (s side) registriesConf() (string, error) {
	conf := s.table.Config()
	conf.Registries = slices.Clone(conf.Registries)
	for i := range conf.Registries {
		if r := &conf.Registries[i]; r.Prefix == r.Location {
			r.Prefix = "" // as the generator has it; reading the file fills it in
		}
	}
	var b bytes.Buffer
	if len(s.set.Registries.ContainerRuntimeSearchRegistries) > 0 {
		b.WriteString("# On nodes, this list of search registries stands in\n# " + mirrors.SearchDropInPath + ".\n")
	}
	if err := toml.NewEncoder(&b).Encode(conf); err != nil {
		return "", fmt.Errorf("encoding registries.conf: %w", err)
	}
	return b.String(), nil
}
