package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/handover"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
)

// checkRelease answers for --release.
func (o *checkOptions) checkRelease(ctx context.Context, streams cli.Streams) error {
	targets, err := o.releaseTargets()
	if err != nil {
		return err
	}
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return err
	}
	defer opened.World.Close()
	w, reviewer := opened.World, opened.Reviewer
	choice, err := readiness.Find(w.Cluster.RolloutObjects().Version, o.release)
	if err != nil {
		return o.aboutRelease(err)
	}
	judging, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	judged := readiness.World{Cluster: w.Cluster, Reviewer: &reviewer, Carrier: w.Registries.Client, Flags: o.Again()}
	if o.stores {
		judged.Stores = &readiness.Stores{Files: w.Registries.Client.Files, Roots: w.CVORoots()}
	}
	r, err := readiness.Judge(judging, judged, choice)
	if err != nil {
		return o.aboutRelease(err)
	}
	if o.plan != "" {
		plan := handover.Make(judging, &reviewer, r.Record, o.missing)
		plan.Release = handover.Release{Version: r.Version, Channel: r.Channel, Architecture: r.Architecture}
		unknown, later := r.Open()
		plan.Unknown, plan.Notes = append(plan.Unknown, unknown...), slices.Concat(plan.Notes, later, r.Notes)
		return o.writePlan(ctx, streams.Out, targets[0], &plan)
	}
	if o.pin {
		return o.printReleasePins(ctx, streams, targets[0], w, judged, r)
	}
	about := o.World.PageContext("mirrorset-guard check --release " + o.release + o.Again() + " -o json")
	about.Traffic = cli.Traffic(w.Registries.Client.Traffic())
	for _, t := range targets {
		if err := t.Print(ctx, streams.Out, func(w io.Writer) error { return o.printRelease(w, t.Output, r, about) }); err != nil {
			return err
		}
	}
	return o.releaseError(r)
}

// aboutRelease says which release there is no answer about.
func (o *checkOptions) aboutRelease(err error) error {
	return fmt.Errorf("--release %s: %w", text.Line(text.Cut(o.release, maxReleaseShown)), err)
}

// maxReleaseShown is more than a reference has.
const maxReleaseShown = 300

// releaseError is nil where the answer is yes.
func (o *checkOptions) releaseError(r *readiness.Readiness) error {
	state := r.State()
	if o.ack {
		state = r.Signed()
	}
	switch state {
	case readiness.Ready:
		return nil
	case readiness.NotReady:
		return cli.ErrDenied
	default:
		return fmt.Errorf("%s: not all could be determined", r.Title())
	}
}

// releaseTargets returns where the answer goes. The error is about flags that do not go together.
func (o *checkOptions) releaseTargets() ([]cli.Target, error) {
	switch {
	case o.ack && o.release == "":
		return nil, errors.New("--ack: only with --release")
	case o.stores && o.release == "":
		return nil, errors.New("--signature-stores: only with --release")
	case o.ack && o.stores:
		return nil, errors.New("--ack is about signatures that nodes require, and --signature-stores about those that CVO does: leave one out")
	case len(o.Change.Files) > 0, o.assume != "", o.simulate:
		return nil, errors.New("--release is about the configuration in force: leave out -f, --assume and --simulate")
	case o.By.Given() && !o.pin:
		return nil, errors.New("--for-user and --for-group: with --release, only if --pin has objects reviewed")
	case o.ack && (o.plan != "" || o.pin):
		return nil, errors.New("--ack is a question of its own: leave out --plan and --pin")
	}
	targets, err := o.outputs.Targets()
	if err != nil {
		return nil, err
	}
	formats := []string{"table", "json", "yaml", "junit", "markdown", "html"}
	for _, t := range targets {
		if !slices.Contains(formats, t.Format) {
			return nil, fmt.Errorf("--output %s: with --release, choose one of %s", t.Format, text.Names(formats, len(formats)))
		}
		if o.ack && t.Format == "html" {
			return nil, errors.New("--ack: the page is about the release as a whole, and the exit code would be about signatures alone: leave out --output html, or --ack")
		}
	}
	return targets, errors.Join(o.checkPlan(targets), o.checkPin(targets))
}

func (o *checkOptions) printRelease(w io.Writer, output cli.Output, r *readiness.Readiness, about page.Context) error {
	switch output.Format {
	case "table":
		answer := r.Report()
		if o.ack {
			answer = r.Evidence()
		}
		return printAnswer(w, cli.StyleOf(w).Paint(answer), r.Notes)
	case "junit":
		return r.WriteJUnit(w)
	case "markdown":
		return r.WriteMarkdown(w)
	case "html":
		return page.WriteRelease(w, r.Document(), about)
	default:
		return output.Write(w, r.Document())
	}
}
