package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/foreseen"
	"github.com/mirrorset-guard/mirrorset-guard/review/handover"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/sarif"
)

// checkOptions are the choices of the command check.
type checkOptions struct {
	cli.ReviewFlags
	outputs cli.Outputs
	timeout time.Duration
	// simulate makes the table show each step of the rollout.
	simulate bool
	// assume is the file of a mirroring that has not been done.
	assume string
	// deletes is the file of what is to be deleted at registries, or a reference; keep is a place at
	// one.
	deletes, keep string
	// plan is the format in which to print what is to be copied, missing whether only that which is
	// missing.
	plan    string
	missing bool
	// release is the release to be judged instead of a change, ack whether to show the evidence for
	// an administrator's word.
	release string
	ack     bool
	// stores is whether to ask signature stores for the signature of the release.
	stores bool
	// pin asks for PinnedImageSets of what drains move, or of a release, instead of the review.
	pin bool
	// rescue is whether that includes the rescue set.
	rescue bool
}

func newCheck() *cobra.Command {
	o := checkOptions{outputs: cli.SeveralFormats("table", "json", "yaml", "junit", "markdown", "html", "sarif", "narrowed", "refs")}
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Review a change before it is made, as the webhook would",
		Long: `check reviews the change in -f as the webhook would: against the cluster of the
kubeconfig, or against a dump of one (--from). All documents in all -f are one
change. Nothing is changed, and no webhook needs to be installed.

One line tells what the change does to the nodes; --simulate shows the rollout
step by step, as MCO, the eviction API, the scheduler and the kubelets would make it.

-o narrowed prints the objects with sources narrowed to what their mirrors hold, and the
image tag or digest mirror sets that are missing beside them. -o
markdown is for a merge request, and -o sarif to have it annotated at the lines that
are wrong; -o html is a page to look at and to pass on. Several formats are written at once as -o FORMAT=FILE,
given several times; files are written only if there is a verdict.

--assume judges a mirroring before it happens: what it would copy counts as present, and is
called assumed in every output.

--plan prints what to copy for the change as a tool wants it: oc-mirror (imageset), oc image
mirror -f (mapping), or a script of skopeo's commands (sh). Its exit code is 0, and 2 if not all could
be determined.

--pin prints PinnedImageSets of what drains of any node move, for each pool, as far as it was
found where nodes pull it from. Applied before the change, they spare its drains a registry.
The exit code is 1 if an image was not found and is left out.
With --release, they have the nodes hold what they may run of a release that is READY.

--deletes asks what a deletion at a mirror would break for this cluster, and --keep what
one has to spare. With --release, the images of that release count, too.

--release asks whether nodes could pull a release before the cluster is updated to it: a
version that ClusterVersion offers, next (the newest that it recommends), desired (the
one that was chosen), or the reference of a release image. The answer is READY (exit
code 0), NOT READY (1) or UNKNOWN (2); --plan prints what to copy for it, and sync
--release copies it. --ack shows the evidence for the word about signatures
that 4.20 wants before 4.21.

With --config, the settings are those of the file, which may be the one that the webhook
has. Its mode counts too: in mode warn or audit, a change that mode enforce would refuse
is admitted, and the report says so.

Exit code 0: would be admitted, possibly with warnings. 1: would be denied. 2: no
verdict, or wrong usage.`,
		Example: `  mirrorset-guard check -f itms.yaml
  mirrorset-guard check -f itms.yaml --simulate
  mirrorset-guard check -f itms.yaml --delete
  mirrorset-guard check -f idms.yaml --delete-file icsp.yaml
  mirrorset-guard check -f mirrors/ --from cluster.yaml -o json
  mirrorset-guard check -f working-dir/cluster-resources --assume working-dir/dry-run/mapping.txt
  mirrorset-guard check -f itms.yaml --plan sh --missing > copy.sh
  mirrorset-guard check -f itms.yaml --pin > pins.yaml
  mirrorset-guard check --deletes working-dir/delete/delete-images.yaml
  mirrorset-guard check --keep mirror.example.com/shop -o refs
  mirrorset-guard check --keep mirror.example.com/openshift --release next -o refs
  mirrorset-guard check --release 4.21.3
  mirrorset-guard check --release next --ack
  mirrorset-guard check --release 4.21.3 --pin > pins.yaml
  mirrorset-guard check -f mirrors/ -o table -o junit=report.xml -o html=report.html`,
		Args: cli.Filled(o.references),
		RunE: func(cmd *cobra.Command, references []string) error {
			if o.asksOfMirror() {
				return o.checkMirror(cmd.Context(), cli.StreamsOf(cmd), references)
			}
			if o.release != "" || o.ack || o.stores {
				return o.checkRelease(cmd.Context(), cli.StreamsOf(cmd))
			}
			return o.run(cmd.Context(), cli.StreamsOf(cmd))
		},
	}
	o.AddFlags(cmd.Flags())
	o.outputs.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.simulate, "simulate", false, "show the rollout step by step")
	cmd.Flags().StringVar(&o.assume, "assume", "", "file of lines SOURCE=DESTINATION, such as oc-mirror's dry-run/mapping.txt: count as present, and call assumed, what it would copy")
	cmd.Flags().StringVar(&o.plan, "plan", "", "print what is to be copied to the mirrors for the change, instead of the review: "+strings.Join(handover.Formats(), ", "))
	cmd.Flags().BoolVar(&o.missing, "missing", false, "with --plan: only what the mirrors lack")
	cmd.Flags().BoolVar(&o.pin, "pin", false, "print PinnedImageSets that have the nodes of each pool hold what drains move, or with --release what they may run of it, instead of the review")
	cmd.Flags().BoolVar(&o.rescue, "rescue", false, "with --pin: pin images for the day something is wrong, too: must-gather, what oc debug starts, support's tools, and the guard's own")
	cmd.Flags().StringVar(&o.deletes, "deletes", "", "judge a deletion at registries instead of a change: oc-mirror's delete-images.yaml, a file of references, - (standard input), or references")
	cmd.Flags().StringVar(&o.keep, "keep", "", "print what nodes may ask for below REGISTRY[/PATH], which a deletion there has to spare")
	cmd.Flags().StringVar(&o.release, "release", "", "judge a release instead of a change, or with --deletes and --keep count its images: a version, next, desired, or the reference of a release image")
	cmd.Flags().BoolVar(&o.ack, "ack", false, "with --release: show, image by image, whether mirrors hold the signatures that nodes will require, and how to give the word for it")
	cmd.Flags().BoolVar(&o.stores, "signature-stores", false, "with --release: ask the signature stores that CVO would ask, from this machine, if no ConfigMap has the signature")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to ask registries before answering with what is known")
	return cmd
}

// references allows arguments where they say what is to be deleted.
func (o *checkOptions) references(cmd *cobra.Command, args []string) error {
	if o.deletes == "" {
		return cli.NoArgs(cmd, args)
	}
	return nil
}

func (o *checkOptions) run(ctx context.Context, streams cli.Streams) error {
	targets, err := o.targets()
	if err != nil {
		return err
	}
	c, err := o.open(ctx, streams)
	if err != nil {
		return err
	}
	defer c.World.Close()
	if o.pin {
		return o.printPins(ctx, streams, targets[0], c)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	record, err := c.Reviewer.Review(ctx, c.Edit, c.By)
	if err != nil {
		return err
	}
	if o.plan != "" {
		return o.printPlan(ctx, streams.Out, targets[0], c, record)
	}
	if err := o.addNotes(ctx, c, &record); err != nil {
		return err
	}
	for _, t := range targets {
		if err := t.Print(ctx, streams.Out, func(w io.Writer) error { return o.print(ctx, w, t.Output, c, record) }); err != nil {
			return err
		}
	}
	if !record.Verdict.Allowed {
		return cli.ErrDenied
	}
	return nil
}

// targets returns the formats to write. The error names the flag that asks for the impossible.
func (o *checkOptions) targets() ([]cli.Target, error) {
	if len(o.Change.Files) == 0 {
		return nil, errors.New("nothing to check: name the change with -f FILE, -f FOLDER or -f -")
	}
	targets, err := o.outputs.Targets()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(targets, func(t cli.Target) bool { return t.Format == "refs" }) {
		return nil, errors.New("--output refs: only for --keep")
	}
	if o.simulate && (o.plan != "" || o.pin) {
		return nil, errors.New("--simulate is about the review, which --plan and --pin take the place of: leave one of them out")
	}
	return targets, errors.Join(o.checkPlan(targets), o.checkPin(targets))
}

// A candidate is a change that was read, with the mirroring that is assumed.
type candidate struct {
	*cli.Candidate
	mapping *foreseen.Mapping // nil where none is
}

// open reads the change, and opens the world. That is to be closed.
func (o *checkOptions) open(ctx context.Context, streams cli.Streams) (*candidate, error) {
	mapping, err := o.mapping(streams)
	if err != nil {
		return nil, err
	}
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	if mapping != nil {
		r := &opened.Reviewer
		r.Registries, r.Trust = mapping.Of(r.Registries), mapping.TrustOf(r.Trust)
	}
	return &candidate{opened, mapping}, nil
}

// addNotes adds to record what is known of the change beside the review.
func (o *checkOptions) addNotes(ctx context.Context, c *candidate, record *review.Record) error {
	record.Notes = slices.Concat(record.Notes, c.Notes, record.Change.OCMirrorNotes())
	if counts := record.Verdict.Counts; c.mapping != nil && counts.Assumed+counts.MovedAssumed == 0 {
		record.Notes = append(record.Notes, "nothing is assumed: no image is missing at a place to which "+o.assume+" copies it")
	}
	if !record.Verdict.Allowed {
		return nil
	}
	steps := c.Reviewer
	steps.Brought = nil // what the change brings is judged as a whole
	note, err := steps.StepNote(ctx, c.Edit, c.By)
	if err == nil && note != "" {
		record.Notes = append(record.Notes, note)
	}
	return err
}

// mapping returns the mirroring that is assumed, nil if none is.
func (o *checkOptions) mapping(streams cli.Streams) (*foreseen.Mapping, error) {
	if o.assume == "" {
		return nil, nil
	}
	file, err := cli.OpenInput(o.assume, streams)
	if err != nil {
		return nil, fmt.Errorf("--assume: %w", err)
	}
	defer file.Close()
	m, err := foreseen.ReadMapping(o.assume, file)
	if err != nil {
		return nil, fmt.Errorf("--assume: %w", err)
	}
	return m, nil
}

func (o *checkOptions) print(ctx context.Context, w io.Writer, output cli.Output, c *candidate, r review.Record) error {
	switch output.Format {
	case "table":
		return printReport(w, r, o.simulate)
	case "junit":
		return r.WriteJUnit(w)
	case "markdown":
		return r.WriteMarkdown(w)
	case "html":
		about := o.World.PageContext("mirrorset-guard check -o json")
		about.Requester = cli.RequesterText(c.By)
		about.Traffic = cli.Traffic(c.World.Registries.Client.Traffic())
		return page.WriteReview(w, r.Document(), about)
	case "narrowed":
		return printNarrowed(ctx, w, c, r)
	case "sarif":
		return sarif.Write(w, r, c.Change, cli.Version)
	default:
		return output.Write(w, r.Document())
	}
}

// printNarrowed prints the narrowed objects with what a review of them says.
func printNarrowed(ctx context.Context, w io.Writer, c *candidate, record review.Record) error {
	record, err := c.Reviewer.WithTwins(ctx, c.Edit, record, c.By)
	if err != nil {
		return err
	}
	reviewed, err := c.Reviewer.ReviewNarrowed(ctx, record, c.By)
	if err != nil {
		return err
	}
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	return review.WriteNarrowed(w, record, reviewed)
}

func printReport(w io.Writer, r review.Record, simulate bool) error {
	style := cli.StyleOf(w)
	report := r.Report()
	if simulate {
		report += r.Simulation()
	}
	if style.Colours() {
		report = withSummary(style.Paint(report), r.Verdict.Findings)
	}
	if _, err := io.WriteString(w, report); err != nil {
		return err
	}
	notes := r.Notes
	if unused := r.Plan.UnusedNote(); unused != "" {
		notes = append(slices.Clone(notes), unused)
	}
	for _, note := range notes {
		fmt.Fprintf(w, "\nNote: %s\n", text.Line(note))
	}
	if looked := r.Verdict.Counts.Looked(); looked != "" {
		fmt.Fprintf(w, "\n%s\n", looked)
	}
	_, err := fmt.Fprintf(w, "\nRegistries were asked from this machine; nodes may have other proxies, CAs and name servers.\n")
	return err
}
