package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/replay"
)

// replayOptions are the choices of the command replay.
type replayOptions struct {
	world   cli.WorldFlags
	filter  filterFlags
	output  cli.Output
	config  cli.ConfigFlags
	facts   string
	timeout time.Duration
}

func newReplay() *cobra.Command {
	o := replayOptions{output: cli.Formats("table", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Judge recorded changes again: what would this version, or a setting, have decided?",
		Long: `replay reads the records of decisions that serve writes (see docs/audit.md), and judges
each change again: with the rules of this version, with the settings of --config and of the
flags, and with the cluster of the kubeconfig or of a dump (--from). Mirror objects are put
back into the state that the records show; everything else, such as the images in use, is as
in the cluster or the dump.

With --facts now, registries are asked again. With --facts recorded, what they said then
counts: it is as old as the record. A record holds the decisive facts and not always all;
a change that would be denied only because the record lacks one has no answer.

A decision differs if its verdict does: allowed, denied, or waived by the mode. One that was
overridden counts as what was overridden. Changes that were not reviewed are left out.

Exit code 0: every change would be decided as it was. 1: some would not. 2: some have no
answer, some records cannot be read, or wrong usage.`,
		Example: `  mirrorset-guard replay audit.log --from cluster.json --facts recorded
  mirrorset-guard replay audit.log audit-*.log.gz --config new.yaml --since 30d --verdict denied`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: cli.CompleteFiles,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cli.StreamsOf(cmd), args) },
	}
	o.world.AddFlags(cmd.Flags())
	o.filter.addFlags(cmd.Flags())
	o.output.AddFlags(cmd.Flags())
	o.config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.facts, "facts", replay.Now, "now or recorded: ask registries again, or go by what they said then")
	cli.OneOf(cmd.Flags(), "facts", replay.Now, replay.Recorded)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to ask registries about one change before answering with what is known")
	return cmd
}

func (o *replayOptions) validate(files []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.facts != replay.Now && o.facts != replay.Recorded {
		return fmt.Errorf("--facts %q: choose %s or %s", o.facts, replay.Now, replay.Recorded)
	}
	if o.world.From == "-" && slices.Contains(files, "-") {
		return errors.New("standard input cannot be both the records and the dump of --from")
	}
	return nil
}

func (o *replayOptions) run(ctx context.Context, io cli.Streams, files []string) error {
	if err := o.validate(files); err != nil {
		return err
	}
	configured, err := o.config.Read()
	if err != nil {
		return err
	}
	o.world.Registries.Configured = &configured
	records, complete, err := o.read(ctx, io, files)
	if err != nil {
		return err
	}
	w, err := o.world.Open(ctx, io)
	if err != nil {
		return err
	}
	defer w.Close()
	results := replay.Judge(ctx, w, records, replay.Options{Settings: configured.Settings, Facts: o.facts, Timeout: o.timeout})
	if err := cli.Interrupted(ctx); err != nil {
		return err
	}
	if err := o.print(io.Out, results); err != nil {
		return err
	}
	switch {
	case results.Summary.NoAnswer > 0:
		return fmt.Errorf("there is no answer about %s", text.Plural(results.Summary.NoAnswer, "change", "changes"))
	case !complete:
		return errors.New("not all records could be read")
	case results.Summary.Differ > 0:
		return cli.ErrDenied
	default:
		return nil
	}
}

// read returns the decisions that rest on a review, or should have, in the order of time, and
// whether everything could be read.
func (o *replayOptions) read(ctx context.Context, io cli.Streams, files []string) (records []replay.Change, complete bool, err error) {
	filter, err := o.filter.filter(time.Now())
	if err != nil {
		return nil, false, err
	}
	reading := newTroubles(io)
	reader := input.Reader{Stdin: io.In, Webhooks: webhookNames, Full: true, Trouble: reading.add}
	stats, err := reader.Read(ctx, files, func(r input.Record) error {
		d := r.Decision
		if r.Loss != nil {
			reading.lost(r.Loss)
		}
		if r.Loss != nil || r.Confirmation != nil || slices.Contains([]string{audit.Skipped, "malformed", "unreviewed"}, d.Verdict) {
			return nil
		}
		asked := filter.Covers(&d)
		if asked || d.Change != nil {
			if !asked || o.facts != replay.Recorded {
				d.Facts = nil // they are most of it
			}
			records = append(records, replay.Change{Decision: d, Asked: asked})
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return records, reading.finish(stats) == nil, nil
}
