package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// explainOptions are the choices of the command explain.
type explainOptions struct {
	world  world
	change change
	output output
	probe  bool
}

func newExplain() *cobra.Command {
	o := explainOptions{output: output{format: "table", formats: []string{"table", "json", "yaml"}}}
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
	return cmd
}

func (o *explainOptions) run(ctx context.Context, images []string, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	edit := mirrors.Edit(mirrors.Keep)
	if len(o.change.files) > 0 {
		var err error
		if edit, _, err = o.change.read(io.in, io.err); err != nil {
			return err
		}
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
	e, err := newExplainer(set, edit(set))
	if err != nil {
		return err
	}
	routes, err := e.routes(images)
	if err != nil {
		return err
	}
	facts := policy.Facts{}
	if o.probe {
		facts = w.registries.Presence(ctx, openLocations(routes))
	}
	if o.output.format != "table" {
		return o.output.write(io.out, e.document(routes, facts))
	}
	e.print(io.out, routes, facts)
	return nil
}

// An explainer knows the configuration before and after a change.
type explainer struct {
	sets   [2]mirrors.Set
	tables [2]*mirrors.Table
}

func newExplainer(before, after mirrors.Set) (*explainer, error) {
	e := &explainer{sets: [2]mirrors.Set{before, after}}
	for i, which := range []string{"in force", "after the change"} {
		var err error
		if e.tables[i], err = mirrors.Resolve(e.sets[i]); err != nil {
			return nil, fmt.Errorf("RejectedByMCO: the configuration %s is invalid, so that no node would get it: %w", which, err)
		}
	}
	return e, nil
}

// explainedRoute is one image with its routes before and after.
type explainedRoute struct {
	image  string
	routes [2]mirrors.Route
}

func (e *explainer) routes(images []string) ([]explainedRoute, error) {
	var out []explainedRoute
	for _, image := range images {
		r := explainedRoute{image: image}
		for i, table := range e.tables {
			var err error
			if r.routes[i], err = table.Route(image); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func openLocations(routes []explainedRoute) []mirrors.Location {
	var locs []mirrors.Location
	for _, r := range routes {
		for _, route := range r.routes {
			for _, l := range route.Open() {
				if !slices.Contains(locs, l) {
					locs = append(locs, l)
				}
			}
		}
	}
	return locs
}

func (e *explainer) document(routes []explainedRoute, facts policy.Facts) review.Explanation {
	doc := review.Explanation{APIVersion: review.APIVersion, Kind: "Explanation", Images: []review.Explained{}}
	for _, r := range routes {
		doc.Images = append(doc.Images, review.Explained{
			Image:  r.image,
			Before: review.RouteDocument(r.routes[0], facts),
			After:  review.RouteDocument(r.routes[1], facts),
		})
	}
	return doc
}

func (e *explainer) print(w io.Writer, routes []explainedRoute, facts policy.Facts) {
	for i, r := range routes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, r.image)
		if r.routes[0].Equal(r.routes[1]) {
			e.printRoute(w, 1, r.routes[1], facts)
			continue
		}
		fmt.Fprintln(w, "  before the change:")
		e.printRoute(w, 0, r.routes[0], facts)
		fmt.Fprintln(w, "  after the change:")
		e.printRoute(w, 1, r.routes[1], facts)
	}
}

func (e *explainer) printRoute(w io.Writer, which int, r mirrors.Route, facts policy.Facts) {
	fmt.Fprintf(w, "  %s\n", e.entry(which, r.Entry))
	if r.Err != nil {
		fmt.Fprintf(w, "  every pull fails before anything is asked: %v\n", r.Err)
		return
	}
	for i, s := range r.Sources {
		fmt.Fprintf(w, "  %d. %s\n     %s\n", i+1, s.Ref, strings.Join(remarks(s, facts), ", "))
	}
}

func remarks(s mirrors.PullSource, facts policy.Facts) []string {
	what := "source"
	if s.Mirror {
		what = "mirror"
	}
	all := []string{what}
	if s.Insecure {
		all = append(all, "insecure (certificates are not verified)")
	}
	if s.Blocked {
		return append(all, "blocked: not tried")
	}
	if f, ok := facts[s.Location]; ok {
		found := f.Presence.String()
		if f.Detail != "" {
			found += ": " + f.Detail
		}
		all = append(all, found)
	}
	return all
}

// entry says which entry of registries.conf decides, and who made it.
func (e *explainer) entry(which int, scope string) string {
	if scope == "" {
		return "no entry covers it: pulled from the source"
	}
	var makers []string
	for _, entry := range e.sets[which].Entries() {
		if name := mirrors.NameOf(entry.Object); entry.Source == scope && !slices.Contains(makers, name) {
			makers = append(makers, name)
		}
	}
	if len(makers) == 0 {
		makers = []string{"Image cluster"}
	}
	return fmt.Sprintf("entry %s, made by %s", scope, strings.Join(makers, ", "))
}
