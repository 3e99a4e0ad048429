package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// explainOptions are the choices of the command explain.
type explainOptions struct {
	world   world
	change  changeFlags
	output  output
	probe   bool
	timeout time.Duration
}

func newExplain() *cobra.Command {
	o := explainOptions{output: formats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "explain IMAGE...",
		Short: "Say where nodes pull an image from, in which order, and why",
		Long: `explain prints the places a node tries for each image, in order, with the entry
of registries.conf that decides and the objects that made it; with -f, before and
after that change. No registry is contacted unless --probe is given.

Exit code 0: explained. 2: an image or an object cannot be parsed, or the Machine
Config Operator would reject the configuration, in which case no node would get it.`,
		Example: `  mirrorset-guard explain quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:...
  mirrorset-guard explain --from must-gather.yaml -f itms.yaml quay.io/team/app:v1 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			return o.run(cmd.Context(), images, streamsOf(cmd))
		},
	}
	o.world.addFlags(cmd.Flags())
	o.change.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.probe, "probe", false, "ask the registries what is there")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long --probe asks registries before answering with what is known")
	return cmd
}

func (o *explainOptions) run(ctx context.Context, images []string, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	edit, err := o.change.readOptional(io)
	if err != nil {
		return err
	}
	w, err := o.open(ctx, io)
	if err != nil {
		return err
	}
	defer w.close()
	set, err := w.inventory.Mirrors(ctx)
	if err != nil {
		return err
	}
	e, err := newExplainer(set, edit.Apply(set))
	if err != nil {
		return err
	}
	if err := e.explain(images); err != nil {
		return err
	}
	if o.probe {
		e.facts = o.ask(ctx, w, e.openLocations())
	}
	if o.output.format != "table" {
		return o.output.write(io.out, e.document())
	}
	e.print(io.out, len(o.change.files) > 0)
	if o.probe {
		printProbeNotes(io.out, w)
	}
	return nil
}

// open reads no more of the world than is needed. Only a cluster that is read as
// a whole comes with the nodes' credentials.
func (o *explainOptions) open(ctx context.Context, io streams) (*openWorld, error) {
	if o.probe {
		return o.world.open(ctx, io)
	}
	return o.world.openMirrors(ctx, io)
}

func (o *explainOptions) ask(ctx context.Context, w *openWorld, locs []mirrors.Location) policy.Facts {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return w.registries.Presence(ctx, locs)
}

func printProbeNotes(w io.Writer, world *openWorld) {
	for _, note := range world.registries.Notes() {
		fmt.Fprintln(w)
		writeLines(w, wrapped("Note: "+note, tableWidth), 0)
	}
	fmt.Fprintf(w, "\nRegistries were asked from this machine; nodes may have other proxies, CAs and name servers.\n")
}

// An explainer knows the configuration before and after a change, and what it
// does to some images.
type explainer struct {
	before, after side
	images        []explained
	facts         policy.Facts // nil if nobody was asked
}

// explained is one image, as asked, with its routes.
type explained struct {
	image         string
	before, after mirrors.Route
}

func newExplainer(before, after mirrors.Set) (*explainer, error) {
	var (
		e   explainer
		err error
	)
	if e.before, err = newSide(before, "in force"); err != nil {
		return nil, err
	}
	if e.after, err = newSide(after, "after the change"); err != nil {
		return nil, err
	}
	return &e, nil
}

// explain works out the routes of images. The error names every one of them that
// no node could parse.
func (e *explainer) explain(images []string) error {
	var malformed []error
	for _, image := range images {
		before, errBefore := e.before.table.Route(image)
		after, errAfter := e.after.table.Route(image)
		if errBefore != nil || errAfter != nil {
			malformed = append(malformed, cmp.Or(errBefore, errAfter))
			continue
		}
		e.images = append(e.images, explained{image, before, after})
	}
	return joined(malformed)
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return err
}

func (e *explainer) openLocations() []mirrors.Location {
	var locs []mirrors.Location
	for _, img := range e.images {
		for _, l := range slices.Concat(img.before.Open(), img.after.Open()) {
			if !slices.Contains(locs, l) {
				locs = append(locs, l)
			}
		}
	}
	return locs
}

func (e *explainer) document() review.Explanation {
	doc := review.Explanation{APIVersion: review.APIVersion, Kind: "Explanation", Images: []review.Explained{}}
	for _, img := range e.images {
		doc.Images = append(doc.Images, review.Explained{
			Image:  img.image,
			Before: review.RouteDocument(img.before, e.facts),
			After:  review.RouteDocument(img.after, e.facts),
		})
	}
	return doc
}
