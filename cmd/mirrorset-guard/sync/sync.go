// Package sync has the command sync, which copies to mirrors what a change needs and they lack.
package sync

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
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
)

// options are the choices of the command.
type options struct {
	world      cli.WorldFlags
	change     cli.ChangeFlags
	output     cli.Output
	policy     cli.PolicyFlags
	config     cli.ConfigFlags
	by         cli.RequesterFlags
	pushSecret string
	platforms  string
	dryRun     bool
	moveTags   bool
	untagged   bool
	history    bool
	rescue     bool
	images     int
	timeout    time.Duration
}

// New returns the command.
func New() *cobra.Command {
	o := options{output: cli.Formats("auto", "lines", "json")}
	cmd := &cobra.Command{
		Use:   "sync [-f FILE]",
		Short: "Copy to the mirrors what a change needs and they lack, and review it again",
		Long: `sync reviews the change in -f, or without one the configuration in force, copies to the
mirrors the images that nodes would not find there, and reviews it once more. The
images of protected namespaces come first, then what runs, then the rest. They are
taken from where nodes find them today, byte for byte: whole indexes, and with each
image its signatures (tags .sig, .att and .sbom) and what refers to it.

Nothing is overwritten: a tag that names another image at the mirror stays unless
--move-tags is given. What was copied when the command is interrupted need not be
copied again.

It pulls with the cluster's pull secret or --pull-secret, and pushes with --push-secret or
the credentials of podman login and docker login.

Exit code 0: the change would be admitted now. 1: it would be denied, and why. 2: trouble.`,
		Example: `  mirrorset-guard sync -f itms.yaml --dry-run
  mirrorset-guard sync -f itms.yaml
  mirrorset-guard sync -f mirrors/ --from cluster.yaml --push-secret push.json
  mirrorset-guard sync --platforms`,
		Args: cobra.NoArgs,
		RunE: cli.Runs(o.run),
	}
	flags := cmd.Flags()
	o.world.AddFlags(flags)
	o.change.AddFlags(flags)
	o.output.AddFlags(flags)
	o.policy.AddFlags(flags)
	o.config.AddFlags(flags)
	o.by.AddFlags(flags)
	flags.StringVar(&o.pushSecret, "push-secret", "", "file with the credentials to push to mirrors with (.dockerconfigjson); default: those of podman login and docker login")
	flags.StringVar(&o.platforms, "platforms", "", "copy only the parts of an index for these platforms (linux/amd64,linux/arm64); without a value, those of the cluster's nodes")
	flags.Lookup("platforms").NoOptDefVal = ofNodes
	flags.BoolVar(&o.dryRun, "dry-run", false, "show how many images and bytes would be copied to which registry, and copy nothing")
	flags.BoolVar(&o.moveTags, "move-tags", false, "move tags that name another image at the mirror")
	flags.BoolVar(&o.untagged, "untagged", false, "leave what is copied by digest without a tag; some registries, such as Quay, then delete it")
	flags.BoolVar(&o.history, "history", false, "copy what only history names, too")
	flags.BoolVar(&o.rescue, "rescue", false, "of what only history names, copy images for the day something is wrong, too (inventory --rescue)")
	flags.IntVar(&o.images, "at-once", 0, "how many images to copy at once (default 48)")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long each of the two reviews asks registries")
	return cmd
}

// ofNodes is --platforms without a value.
const ofNodes = "cluster"

func (o *options) run(ctx context.Context, streams cli.Streams) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.images < 0 || o.images > maxImages {
		return fmt.Errorf("--at-once %d: want 1 to %d", o.images, maxImages)
	}
	configured, err := o.config.Read(&o.policy, &o.world.Registries)
	if err != nil {
		return err
	}
	o.world.Registries.Configured = &configured
	by, err := o.by.Requester()
	if err != nil {
		return err
	}
	change, err := o.change.Begin(streams)
	if err != nil {
		return err
	}
	w, err := o.world.Open(ctx, streams)
	if err != nil {
		return change.Unless(err)
	}
	defer w.Close()
	edit, notes, err := change.On(ctx, w)
	if err != nil {
		return err
	}
	reviewer := w.Reviewer()
	reviewer.Settings = configured.Settings
	s := &syncing{options: o, world: w, reviewer: &reviewer, edit: edit, by: by, notes: notes, streams: streams}
	return s.run(ctx)
}

const maxImages = 256

// A syncing is one run of the command.
type syncing struct {
	*options
	world    *world.World
	reviewer *review.Reviewer
	edit     mirrors.Edit
	by       policy.Requester
	notes    []string
	streams  cli.Streams
}

func (s *syncing) run(ctx context.Context) error {
	record, err := s.review(ctx)
	if err != nil {
		return err
	}
	platforms, err := s.chosenPlatforms()
	if err != nil {
		return err
	}
	wanted, skipped := s.choose(record.Verdict.Copies())
	credentials, err := s.pushCredentials(wanted)
	if err != nil {
		return err
	}
	push := s.world.Registries.Client.With(credentials)
	defer push.Close()
	display := s.display()
	copier := copying.New(s.world.Registries.Client, push, copying.Options{
		Platforms: platforms, MoveTags: s.moveTags, Untagged: s.untagged, Images: s.images, On: display.on,
	})
	display.begin(ctx, skipped)
	jobs := copier.Survey(ctx, wanted)
	display.plan(jobs)
	if !s.dryRun {
		copier.Run(ctx, jobs)
	}
	display.end(jobs)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted; what was copied is kept, and the same command goes on from there")
	}
	if len(platforms) > 0 {
		s.notes = append(s.notes, "of indexes, only the parts for "+strings.Join(platforms, ", ")+" were copied: a node of another platform that joins later could not pull them (PlatformMissing)")
	}
	if s.dryRun {
		return s.conclude(record, skipped, jobs)
	}
	return s.reviewAgain(ctx, skipped, jobs)
}

// reviewAgain reviews the same change with nothing remembered.
func (s *syncing) reviewAgain(ctx context.Context, skipped []skip, jobs []*copying.Job) error {
	afresh := s.world.Registries.Afresh()
	defer afresh.Store.Close()
	s.reviewer.Registries = afresh
	record, err := s.review(ctx)
	if err != nil {
		return err
	}
	return s.conclude(record, skipped, jobs)
}

func (s *syncing) review(ctx context.Context) (review.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if len(s.change.Files) == 0 {
		return s.reviewer.Standing(ctx)
	}
	return s.reviewer.Review(ctx, s.edit, s.by)
}

// conclude prints what the review says.
func (s *syncing) conclude(record review.Record, skipped []skip, jobs []*copying.Job) error {
	record.Notes = append(record.Notes, s.notes...)
	if err := s.print(record, skipped, jobs); err != nil {
		return err
	}
	if !record.Verdict.Allowed {
		return cli.ErrDenied
	}
	return nil
}

func (s *syncing) print(record review.Record, skipped []skip, jobs []*copying.Job) error {
	if s.output.Format == "json" {
		return writeLine(s.streams.Out, record.Document())
	}
	out := s.streams.Out
	for _, k := range skipped {
		fmt.Fprintf(out, "Not copied: %s: %s\n", text.Line(k.copied.Image.Ref), text.Line(k.why))
	}
	for _, j := range jobs {
		if j.State == copying.Failed {
			fmt.Fprintf(out, "Not copied: %s to %s: %s\n", text.Line(j.Image.Ref), text.Line(j.To.Ref), text.Line(j.Err.Error()))
		}
		for _, note := range j.Notes {
			fmt.Fprintf(out, "Note: %s: %s\n", text.Line(j.To.Ref), text.Line(note))
		}
	}
	if s.dryRun {
		fmt.Fprintf(out, "\nAs things are:\n")
	}
	if _, err := io.WriteString(out, "\n"+record.Report()); err != nil {
		return err
	}
	for _, note := range record.Notes {
		fmt.Fprintf(out, "\nNote: %s\n", text.Line(note))
	}
	return nil
}

// A skip is a copy that is not made, and why.
type skip struct {
	copied policy.Copy
	why    string
}

// choose returns the copies to be made, and the others.
func (s *syncing) choose(copies []policy.Copy) (wanted []policy.Copy, skipped []skip) {
	for _, c := range copies {
		switch why := s.whyNot(c); {
		case c.Image.Use() == policy.History && !s.history && (!s.rescue || !c.Image.IsRescue()):
		case why != "":
			skipped = append(skipped, skip{c, why})
		default:
			wanted = append(wanted, c)
		}
	}
	return wanted, skipped
}

func (s *syncing) whyNot(c policy.Copy) string {
	switch {
	case c.ToSource:
		return "it is lost at its source, " + c.To.Ref + ", to which nothing is pushed"
	case c.Obstacle != "" && !c.Denied:
		return c.Obstacle
	case c.Moves && !s.moveTags:
		return "the tag names another image at " + c.To.Ref + "; --move-tags moves it"
	default:
		return ""
	}
}

func (s *syncing) chosenPlatforms() ([]string, error) {
	switch s.platforms {
	case "":
		return nil, nil
	case ofNodes:
		known := policy.PlatformsOf(s.world.Cluster.Nodes())
		if len(known) == 0 {
			return nil, errors.New("--platforms: no node of the cluster says which platform it has; name them (--platforms=linux/amd64)")
		}
		return known, nil
	}
	chosen := strings.Split(s.platforms, ",")
	if i := slices.IndexFunc(chosen, func(p string) bool { return strings.Count(p, "/") != 1 || strings.Trim(p, "/") != p }); i >= 0 {
		return nil, fmt.Errorf("--platforms: %q is not a platform; want linux/amd64 and the like, with commas between them", chosen[i])
	}
	return chosen, nil
}
