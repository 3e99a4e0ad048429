package records

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// auditOptions are the choices of the command audit.
type auditOptions struct {
	filter  filterFlags
	output  cli.Output
	summary bool
}

func newAudit() *cobra.Command {
	o := auditOptions{output: cli.Formats("table", "json")}
	cmd := &cobra.Command{
		Use:   "audit FILE...",
		Short: "Show who changed what, and what the guard decided",
		Long: `audit reads the records of decisions that serve writes (see docs/audit.md), and the
audit log of an API server, whose events have the guard's annotations. A FILE may be
compressed with gzip, a folder (all files in it), or - (standard input). Several files
are read in the order of time, and each decision is reported once.

The table ends with a summary. -o json prints the records, one a line, which audit and
replay read again; with --summary, only the summary.

Exit code 0: everything was read. 1: some lines or files could not be read, or records
are known to be lost; standard error names them, and the answer covers the rest. 2: no
answer, or wrong usage.`,
		Example: `  oc -n mirrorset-guard logs -l app.kubernetes.io/name=mirrorset-guard --tail=-1 | mirrorset-guard audit -
  oc adm node-logs --role=master --path=kube-apiserver/audit.log | mirrorset-guard audit - --since 24h --verdict denied
  mirrorset-guard audit /var/log/mirrorset-guard --user 'system:serviceaccount:openshift-gitops:*' -o json`,
		ValidArgsFunction: cli.CompleteFiles,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cli.StreamsOf(cmd), args) },
	}
	o.filter.addFlags(cmd.Flags())
	o.output.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.summary, "summary", false, "print the summary only")
	return cmd
}

func (o *auditOptions) run(ctx context.Context, io cli.Streams, files []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	filter, err := o.filter.filter(time.Now())
	if err != nil {
		return err
	}
	var sum input.Summer
	show, finish := o.printers(io.Out)
	reading := newTroubles(io)
	reader := input.Reader{Stdin: io.In, Webhooks: webhookNames, Trouble: reading.add}
	stats, err := reader.Read(ctx, files, func(r input.Record) error {
		if r.Loss != nil {
			if filter.CoversTime(r.Loss.Time) {
				sum.AddLoss(r.Loss)
				reading.lost(r.Loss)
			}
			return nil
		}
		if !filter.Covers(&r.Decision) {
			return nil
		}
		if r.Confirmation != nil {
			sum.AddConfirmation(r.Confirmation)
			return show(r)
		}
		sum.Add(&r.Decision)
		return show(r)
	})
	if err != nil {
		return err
	}
	if err := finish(sum.Summary()); err != nil {
		return err
	}
	return reading.finish(stats)
}

// webhookNames are those under which an API server has the guard's annotations.
var webhookNames = []string{webhook.MirrorSetsWebhook, webhook.DeletionsWebhook}

// printers return what prints a record, and what prints the end.
func (o *auditOptions) printers(w io.Writer) (show func(input.Record) error, finish func(v1alpha1.AuditSummary) error) {
	show = func(input.Record) error { return nil }
	switch {
	case o.summary && o.output.Format == "json":
		return show, func(s v1alpha1.AuditSummary) error {
			return o.output.Write(w, s)
		}
	case o.summary:
		return show, func(s v1alpha1.AuditSummary) error { return printSummary(w, s) }
	case o.output.Format == "json":
		return func(r input.Record) error { return writeRecord(w, r) }, func(v1alpha1.AuditSummary) error { return nil }
	default:
		table := decisionTable{to: w}
		return table.add, func(s v1alpha1.AuditSummary) error {
			if err := table.flush(); err != nil {
				return err
			}
			return printSummary(w, s)
		}
	}
}

// writeRecord writes a record as it was written or, if it is from the API server's log, as the
// guard would have written it.
func writeRecord(w io.Writer, r input.Record) error {
	line := append(text.JSON(r.Line), '\n')
	if r.Line == nil {
		var err error
		if line, err = r.Decision.Line(); err != nil {
			return err
		}
	}
	_, err := w.Write(line)
	return err
}

// filterFlags select decisions.
type filterFlags struct {
	since, until                    string
	users, verdicts, objects, rules []string
	overridden                      bool
	dryRun                          string
}

func (f *filterFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "leave out what is older: a duration before now, as in 24h or 7d, or a time, as in 2026-11-22T10:00:00Z")
	flags.StringVar(&f.until, "until", "", "leave out what is newer, or as old: written like --since")
	flags.StringSliceVar(&f.users, "user", nil, "only decisions about this user (a trailing * matches any ending); may be repeated")
	flags.StringSliceVar(&f.verdicts, "verdict", nil, "only these verdicts: "+strings.Join(auditVerdicts, ", "))
	cli.OneOf(flags, "verdict", auditVerdicts...)
	flags.StringSliceVar(&f.objects, "object", nil, "only decisions about this object: NAME, KIND/NAME or KIND/NAMESPACE/NAME (a trailing * matches any ending); may be repeated")
	flags.StringSliceVar(&f.rules, "rule", nil, "only decisions with a finding of this rule (a trailing * matches any ending); may be repeated")
	flags.BoolVar(&f.overridden, "overridden", false, "only changes that were admitted by an override")
	flags.StringVar(&f.dryRun, "dry-run", "", "only decisions about dry runs (true), or about none (false); empty for both")
	cli.OneOf(flags, "dry-run", "true", "false")
}

var auditVerdicts = []string{"allowed", "denied", "waived", "overridden", "none", "malformed", "skipped", "unreviewed"}

func (f *filterFlags) filter(now time.Time) (input.Filter, error) {
	filter := input.Filter{Users: f.users, Verdicts: lowered(f.verdicts), Objects: f.objects, Rules: f.rules, Overridden: f.overridden}
	var err error
	if filter.Since, err = moment("--since", f.since, now); err != nil {
		return filter, err
	}
	if filter.Until, err = moment("--until", f.until, now); err != nil {
		return filter, err
	}
	if !filter.Since.IsZero() && !filter.Until.IsZero() && !filter.Since.Before(filter.Until) {
		return filter, fmt.Errorf("--since %s is not before --until %s", f.since, f.until)
	}
	if err := known("--verdict", f.verdicts, auditVerdicts); err != nil {
		return filter, err
	}
	if err := knownRules(f.rules); err != nil {
		return filter, err
	}
	switch f.dryRun {
	case "":
	case "true", "false":
		dry := f.dryRun == "true"
		filter.DryRun = &dry
	default:
		return filter, fmt.Errorf("--dry-run %q: choose true or false", f.dryRun)
	}
	return filter, nil
}

// known returns an error that names the first of values that is not among choices.
func known(flag string, values, choices []string) error {
	for _, value := range values {
		if !containsFold(choices, value) {
			return fmt.Errorf("%s %q: choose among %s", flag, value, strings.Join(choices, ", "))
		}
	}
	return nil
}

// knownRules lets patterns pass, and the names of rules.
func knownRules(rules []string) error {
	for _, rule := range rules {
		if !strings.HasSuffix(rule, "*") && !containsFold(policy.RuleIDs(), rule) {
			return fmt.Errorf("--rule %q: there is no such rule; choose one of %s", rule, strings.Join(policy.RuleIDs(), ", "))
		}
	}
	return nil
}

func lowered(list []string) []string {
	return each.Of(list, strings.ToLower)
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, s) })
}

// moment reads a time, or a duration before now, in which d stands for days; "" is the zero time.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(s)
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		d, err = time.ParseDuration(days + "h")
		d *= 24
	}
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%s %q: want a duration such as 24h or 7d, or a time such as %s", flag, s, now.UTC().Format(time.RFC3339))
	}
	return now.Add(-d), nil
}

// troubles report parts that cannot be read, the first few of each file.
type troubles struct {
	to       cli.Streams
	ofFile   map[string]int
	lostSome bool
}

// maxTroubles bounds those of a file that are reported one by one.
const maxTroubles = 10

func newTroubles(to cli.Streams) *troubles { return &troubles{to: to, ofFile: map[string]int{}} }

func (t *troubles) add(trouble input.Trouble) {
	t.ofFile[trouble.File]++
	if n := t.ofFile[trouble.File]; n <= maxTroubles {
		t.to.Note("%s", trouble)
	}
}

func (t *troubles) lost(l *auditv1alpha1.Loss) {
	t.lostSome = true
	t.to.Note("%s lost by %s from %s to %s: %s", text.Plural(l.Lost, "record was", "records were"),
		text.Line(l.Guard.Replica), l.Since.Format(time.RFC3339), l.Time.Format(time.RFC3339), text.Line(l.Reason))
}

// finish says what else there is to know of the reading, and returns errDenied if the records are
// not complete.
func (t *troubles) finish(stats input.Stats) error {
	for file, n := range t.ofFile {
		if n > maxTroubles {
			t.to.Note("%s: and %s that cannot be read", file, text.Count(n-maxTroubles, "more line"))
		}
	}
	if stats.Backwards > 0 {
		t.to.Note("%s out of order in its file, as when a clock is set back", text.Plural(stats.Backwards, "record is", "records are"))
	}
	if stats.Troubles > 0 || t.lostSome {
		return cli.ErrDenied
	}
	return nil
}
