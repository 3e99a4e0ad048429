package inspect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// explainOptions are the choices of the command explain.
type explainOptions struct {
	world     cli.WorldFlags
	change    cli.ChangeFlags
	outputs   cli.Outputs
	probe     bool
	namespace string
	timeout   time.Duration
}

func newExplain() *cobra.Command {
	o := explainOptions{outputs: cli.SeveralFormats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "explain IMAGE...",
		Short: "Explain where nodes pull an image from, in which order, and why",
		Long: `explain prints the places a node tries for each image, in order, with the entry
of registries.conf that decides and the objects that made it; with -f, before and
after that change. Where an image policy requires signatures, it says which, what
they have to be, and where nodes look for them. No registry is contacted unless
--probe is given. With --probe, or of a dump, it also says what uses the image.

Exit code 0: explained. 2: an image or an object cannot be parsed, or the Machine
Config Operator would reject the configuration, in which case no node would get it.`,
		Example: `  mirrorset-guard explain quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:...
  mirrorset-guard explain --from must-gather.yaml -f itms.yaml quay.io/team/app:v1 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			return o.run(cmd.Context(), images, cli.StreamsOf(cmd))
		},
	}
	o.world.AddFlags(cmd.Flags())
	o.change.AddFlags(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "explain it for pods of this namespace; default: those without an ImagePolicy")
	cmd.Flags().BoolVar(&o.probe, "probe", false, "ask the registries what is there")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long --probe asks registries before answering with what is known")
	return cmd
}

func (o *explainOptions) run(ctx context.Context, images []string, io cli.Streams) error {
	targets, err := o.outputs.Targets()
	if err != nil {
		return err
	}
	w, set, edit, err := proposed(ctx, io, &o.change, o.open)
	if err != nil {
		return err
	}
	defer w.Close()
	e, err := review.NewExplainer(set, edit.Apply(set))
	if err != nil {
		return err
	}
	e.Namespace = o.namespace
	if errs := e.Add(images); len(errs) > 0 {
		return errors.New(strings.Join(convert.Each(errs, error.Error), "; "))
	}
	if o.probe || w.Live == nil {
		// A dump of mirror objects alone does not tell who uses an image.
		gaps := slices.DeleteFunc(slices.Clone(w.Cluster.Gaps()), policy.Gap.IsOfNodes)
		if used, err := w.Cluster.Images(ctx); err == nil {
			e.Use(used, gaps, w.Cluster.Nodes())
		}
	}
	if o.probe {
		o.ask(ctx, w, e)
	}
	return cli.Print(ctx, io, targets, cli.Answer{
		Answer: func() *answer.Answer {
			a := e.Answer(len(o.change.Files) > 0)
			if o.probe {
				a.Notes, a.Basis = append(a.Notes, w.Registries.Notes()...), []string{review.AskedFromHere}
			}
			return a
		},
		Document: func() any { return e.Document() },
	})
}

// open reads no more of the world than is needed. Only a dump, and a cluster that is read as
// a whole, come with the nodes' credentials, and with what uses images.
func (o *explainOptions) open(ctx context.Context, io cli.Streams) (*environment.World, error) {
	if o.probe || o.world.From != "" {
		return o.world.Open(ctx, io)
	}
	return o.world.OpenMirrors(ctx, io)
}

func (o *explainOptions) ask(ctx context.Context, w *environment.World, e *review.Explainer) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	e.Facts = policy.Facts{}
	for lookups := e.Lookups(); len(lookups) > 0; lookups = e.Lookups() {
		found := w.Registries.Presence(ctx, lookups, policy.Freshness{})
		for _, l := range lookups {
			e.Facts[l] = found.At(l)
		}
	}
}

// proposed opens a world, which is to be closed, and reads what is in force there, and a change of it.
func proposed(ctx context.Context, io cli.Streams, flags *cli.ChangeFlags, open func(context.Context, cli.Streams) (*environment.World, error)) (_ *environment.World, set mirrors.Set, edit mirrors.Edit, _ error) {
	change, err := flags.Begin(io)
	if err != nil {
		return nil, set, edit, err
	}
	w, err := open(ctx, io)
	if err != nil {
		return nil, set, edit, change.Unless(err)
	}
	edit, notes, err := change.On(ctx, w)
	for _, note := range notes {
		io.Note("%s", text.Line(note))
	}
	if err == nil {
		set, err = w.Cluster.Mirrors(ctx)
	}
	if err != nil {
		w.Close()
	}
	return w, set, edit, err
}
