// Package sync has the command sync, which copies to mirrors what a change needs and they lack.
package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// options are the choices of the command.
type options struct {
	cli.ReviewFlags
	output cli.Output
	// release is the release to be copied instead of what a change needs.
	release    string
	pushSecret string
	dryRun     bool
	moveTags   bool
	untagged   bool
	history    bool
	rescue     bool
	maxBytes   string
	timeout    time.Duration
}

// New returns the command.
func New() *cobra.Command {
	o := options{output: cli.Formats("lines", "json")}
	cmd := &cobra.Command{
		Use:   "sync [-f FILE]",
		Short: "Copy to the mirrors what a change needs and they lack, and review it again",
		Long: `sync reviews the change in -f, or without one the configuration in force, copies to the
mirrors the images that nodes would not find there, and reviews it once more. The
images of protected namespaces come first, then what runs, then the rest. They are
taken from where nodes find them today, byte for byte: whole indexes, and with each
image its signatures (tags .sig, .att and .sbom) and what refers to it.

With --release it copies what a release lacks, as the command release finds it, in the order of
an update: the release image, the version operator, the others by run level, the images of
the nodes' system.

Nothing is overwritten: a tag that names another image at the mirror stays unless
--move-tags is given. What was copied when the command is interrupted need not be
copied again.

It pulls with the cluster's pull secret or --pull-secret, and pushes with --push-secret or
the credentials of podman login and docker login.

Exit code 0: the change would be admitted now, without one the mirrors have what nodes
need, or the release is READY. 1: that is not so, and why. 2: trouble, or UNKNOWN.`,
		Example: `  mirrorset-guard sync -f itms.yaml --dry-run
  mirrorset-guard sync -f itms.yaml
  mirrorset-guard sync -f mirrors/ --from cluster.yaml --push-secret push.json
  mirrorset-guard sync --release 4.21.3 --dry-run`,
		Args: cli.Apart(cli.NoArgs, "release", "filename", "history", "rescue"),
		RunE: cli.Runs(o.run),
	}
	flags := cmd.Flags()
	o.AddFlags(flags)
	o.output.AddFlags(flags)
	flags.StringVar(&o.release, "release", "", "copy what a release lacks instead: a version, next, desired, or the reference of a release image, as for the command release")
	flags.StringVar(&o.pushSecret, "push-secret", "", "file with the credentials to push to mirrors with (.dockerconfigjson); default: those of podman login and docker login")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show how many images and bytes would be copied to which registry, and copy nothing")
	flags.BoolVar(&o.moveTags, "move-tags", false, "move tags that name another image at the mirror")
	flags.BoolVar(&o.untagged, "untagged", false, "leave what is copied by digest without a tag; some registries, such as Quay, then delete it")
	flags.BoolVar(&o.history, "history", false, "copy what only history names, too")
	flags.BoolVar(&o.rescue, "rescue", false, "of what only history names, copy images for the day something is wrong, too (inventory --rescue)")
	flags.StringVar(&o.maxBytes, "max-bytes", "", "send no more than this to mirrors, such as 20Gi: images for which there is no room are left for another run, and named")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long each review asks registries: one before the copies and one after, for a release up to four")
	return cmd
}

func (o *options) run(ctx context.Context, streams cli.Streams) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if len(o.Change.Files) == 0 && o.By.Given() {
		return errors.New("--for-user and --for-group: only with -f: without it, there is no change that they could ask for")
	}
	room, err := o.room()
	if err != nil {
		return err
	}
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return err
	}
	defer opened.World.Close()
	s := &syncing{options: o, room: room, world: opened.World, reviewer: &opened.Reviewer, streams: streams}
	if o.release != "" {
		if s.subject, err = s.releaseOf(); err != nil {
			return err
		}
	} else {
		s.subject, s.notes = s.inForce, opened.Notes
		if len(s.Change.Files) > 0 {
			s.subject = s.ofChange(opened)
		}
	}
	return s.run(ctx)
}

// room returns the bytes that --max-bytes gives, 0 if it is not given.
func (o *options) room() (int64, error) {
	if o.maxBytes == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(o.maxBytes)
	if err != nil || q.Value() < 1 {
		return 0, fmt.Errorf("--max-bytes %q: want a number of bytes, such as 20Gi or 500M", o.maxBytes)
	}
	return q.Value(), nil
}

// A syncing is one run of the command.
type syncing struct {
	*options
	world    *environment.World
	reviewer *review.Reviewer
	// subject judges the synced change or release, by the facts about registries.
	subject func(context.Context) (judged, error)
	notes   []string
	streams cli.Streams

	room    int64 // the rest of --max-bytes; 0 for no bound
	skipped []skip
	jobs    []*copying.Job
}

// A judged is a verdict on a change or on a release.
type judged struct {
	// copies are in the order in which they are to be made.
	copies []policy.Copy
	// open are the images that may have to be copied.
	open []rules.Undetermined
	// grows is set if more may be found to be missing once copies are made: a release image has to be there to tell
	// which images it names.
	grows    bool
	said     func() *answer.Answer // for people
	document func(notes []string) any
	notes    []string
	err      error // nil if it is good
}

// ofChange judges a change.
func (s *syncing) ofChange(c *cli.Candidate) func(context.Context) (judged, error) {
	return func(ctx context.Context) (judged, error) {
		record, err := s.reviewer.Review(ctx, c.Edit, c.By)
		if err != nil {
			return judged{}, err
		}
		a := answerBy(record.Judged(), record.Answer, record.Notes)
		a.document = func(notes []string) any {
			record.Notes = notes
			return record.Document()
		}
		if !record.Verdict.Allowed {
			a.err = cli.ErrDenied
		}
		return a, nil
	}
}

// inForce judges the configuration in force.
func (s *syncing) inForce(ctx context.Context) (judged, error) {
	standing, err := s.reviewer.Standing(ctx)
	if err != nil {
		return judged{}, err
	}
	a := answerBy(standing.Judged(), standing.Answer, standing.Notes)
	a.document = func(notes []string) any {
		standing.Notes = notes
		return standing.Document()
	}
	if standing.Verdict.HasFaults() || s.lacks(a) {
		a.err = cli.ErrDenied
	} else if gaps := standing.Plan.Gaps; len(gaps) > 0 {
		a.err = fmt.Errorf("what nodes need is not fully known: %s", policy.GapNames(gaps))
	}
	return a, nil
}

func answerBy(j review.Judged, said func() *answer.Answer, notes []string) judged {
	return judged{copies: j.Judgement.Copies(), open: rules.UndeterminedOf(j.Plan, j.Facts), said: said, notes: notes}
}

// lacks reports whether mirrors lack what nodes need and the options ask for, or may lack it.
func (s *syncing) lacks(a judged) bool {
	wanted := func(c policy.Copy) bool { return !s.leavesOut(c.Image) && (c.Rule != policy.TagDrift || s.moveTags) }
	return slices.ContainsFunc(a.copies, wanted) ||
		slices.ContainsFunc(a.open, func(u rules.Undetermined) bool { return !s.leavesOut(u.Image) })
}

// maxRounds bounds how often more is found to be missing: the release image first, then what it names.
const maxRounds = 3

func (s *syncing) run(ctx context.Context) error {
	found, err := s.judge(ctx)
	if err != nil {
		return err
	}
	tried := map[attempt]bool{}
	isNew := func(c policy.Copy) bool { return !tried[attemptOf(c)] }
	for round := 1; round == 1 || round <= maxRounds && found.grows && slices.ContainsFunc(found.copies, isNew); round++ {
		for _, c := range found.copies {
			tried[attemptOf(c)] = true
		}
		if err := s.copy(ctx, found); err != nil {
			return err
		}
		if s.dryRun {
			return s.conclude(found)
		}
		if found, err = s.judgeAfresh(ctx); err != nil {
			return err
		}
	}
	return s.conclude(found)
}

// An attempt is a copy that was tried. Another copy to the same place is another attempt: signatures may turn out to be missing once the image is
// there.
type attempt struct {
	to, rule    string
	attachments int
}

func attemptOf(c policy.Copy) attempt {
	return attempt{mirrors.OneSpelling(c.To.Ref), c.Rule, len(c.Attachments)}
}

// copy makes the copies that were found to be missing.
func (s *syncing) copy(ctx context.Context, found judged) error {
	wanted, skipped := s.choose(found)
	credentials, err := s.pushCredentials(wanted)
	if err != nil {
		return err
	}
	push := s.world.Registries.Client.With(credentials)
	defer push.Close()
	display := s.display()
	copier := copying.New(s.world.Registries.Client, push, copying.Options{
		MoveTags: s.moveTags, Untagged: s.untagged, MaxBytes: s.room, On: display.on,
	})
	display.begin(ctx, skipped)
	var jobs []*copying.Job
	if s.dryRun {
		jobs = copier.Survey(ctx, wanted)
		display.plan(jobs)
	} else {
		jobs = copier.Copy(ctx, wanted, display.plan)
	}
	display.end(ctx.Err() != nil)
	if ctx.Err() != nil {
		return errInterrupted
	}
	s.learn(jobs)
	again := func(was *copying.Job) bool {
		return slices.ContainsFunc(jobs, func(j *copying.Job) bool { return mirrors.SamePlace(j.To.Ref, was.To.Ref) })
	}
	if s.room > 0 {
		for _, j := range jobs {
			s.room -= j.Sent()
		}
		s.room = max(s.room, 1) // 0 would be no bound
	}
	s.skipped, s.jobs = skipped, append(slices.DeleteFunc(s.jobs, again), jobs...)
	return nil
}

// learn notes which mirrors have said that they are caches, so that remedies are for such.
func (s *syncing) learn(jobs []*copying.Job) {
	for _, j := range jobs {
		if repository, _, ok := mirrors.Canonical(j.To.Ref); ok && j.Cache && !slices.Contains(s.reviewer.Settings.Caches, repository) {
			s.reviewer.Settings.Caches = append(slices.Clip(s.reviewer.Settings.Caches), repository)
		}
	}
}

var errInterrupted = errors.New("interrupted; the layers that arrived are kept, and the same command goes on from there")

// judgeAfresh judges with nothing remembered.
func (s *syncing) judgeAfresh(ctx context.Context) (judged, error) {
	afresh := s.world.Registries.Afresh()
	defer afresh.Store.Close()
	s.reviewer.Registries = afresh
	return s.judge(ctx)
}

func (s *syncing) judge(ctx context.Context) (judged, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found, err := s.subject(ctx)
	if cli.Interrupted(ctx) != nil {
		return judged{}, errInterrupted // no verdict rests on questions that were not asked
	}
	return found, err
}

// conclude prints what was found. A run that leaves something for another one is no success.
func (s *syncing) conclude(found judged) error {
	found.notes = append(found.notes, s.notes...)
	var left int
	var bytes int64
	for _, j := range s.jobs {
		if errors.Is(j.Err, copying.ErrLeft) {
			left++
			bytes += j.Bytes
		}
	}
	if left > 0 {
		found.notes = append(found.notes, fmt.Sprintf("--max-bytes %s left %s for another run, with %s to be sent", s.maxBytes, text.Count(left, "image"), size(bytes)))
		found.err = cmp.Or(found.err, cli.ErrDenied)
	}
	if err := s.print(found); err != nil {
		return err
	}
	return found.err
}

func (s *syncing) print(found judged) error {
	if s.output.Format == "json" {
		return cli.WriteLine(s.streams.Out, found.document(found.notes))
	}
	out := s.streams.Out
	for _, line := range s.notCopied() {
		fmt.Fprintln(out, text.Line(line))
	}
	for _, j := range s.jobs {
		for _, note := range j.Notes {
			fmt.Fprintf(out, "Note: %s: %s\n", text.Line(j.To.Ref), text.Line(note))
		}
	}
	if s.dryRun {
		fmt.Fprintf(out, "\nAs things are:\n")
	}
	said := found.said()
	said.Notes = found.notes
	_, err := io.WriteString(out, "\n"+said.Text(cli.LookOf(out)))
	return err
}

// Bounds of the lines about what was not copied: a reason that more images than maxAlike share has one line, which names the first of them,
// and there are at most maxReasons lines.
const (
	maxAlike   = 3
	maxReasons = 50
)

// notCopied returns lines about what was not copied, and why.
func (s *syncing) notCopied() []string {
	var lines, reasons []string
	of := map[string][]string{} // images by reason
	long := map[string][]string{}
	add := func(why, image, line string) {
		if of[why] == nil {
			reasons = append(reasons, why)
		}
		of[why], long[why] = append(of[why], image), append(long[why], line)
	}
	for _, k := range s.skipped {
		add(k.why, k.copied.Image.Ref, k.copied.Image.Ref)
	}
	for _, j := range s.jobs {
		if j.State == copying.Failed {
			add(j.Err.Error(), j.Image.Ref, j.Image.Ref+" to "+j.To.Ref)
		}
	}
	for _, why := range reasons {
		if len(of[why]) > maxAlike {
			lines = append(lines, "Not copied: "+text.Names(of[why], maxAlike)+": "+why)
			continue
		}
		for _, line := range long[why] {
			lines = append(lines, "Not copied: "+line+": "+why)
		}
	}
	return text.First(lines, maxReasons, "line (-o json has all)")
}

// A skip is a copy that is not made, and why.
type skip struct {
	copied policy.Copy
	why    string
	open   bool // whether it is not known to be needed
}

// choose returns the copies to be made, and the others.
func (s *syncing) choose(found judged) (wanted []policy.Copy, skipped []skip) {
	for _, c := range found.copies {
		switch why := s.whyNot(c); {
		case s.leavesOut(c.Image):
		case why != "":
			skipped = append(skipped, skip{copied: c, why: why})
		default:
			wanted = append(wanted, c)
		}
	}
	for _, u := range found.open {
		if !s.leavesOut(u.Image) {
			skipped = append(skipped, skip{policy.Copy{Image: u.Image, To: u.At}, "it could not be looked up at " + u.At.Host() + ": " + u.Why, true})
		}
	}
	return wanted, skipped
}

// leavesOut reports whether only history names an image, and such images are not to be copied.
func (s *syncing) leavesOut(i policy.Image) bool {
	return i.Use() == policy.History && !s.history && (!s.rescue || !i.IsRescue())
}

func (s *syncing) whyNot(c policy.Copy) string {
	switch {
	case c.Obstacle != "" && !c.Denied:
		return c.Obstacle
	case c.ToSource && !c.Cache:
		return "it is lost at its source, " + c.To.Ref + ", to which nothing is pushed"
	case c.Moves && !s.moveTags:
		return "the tag names another image at " + c.To.Ref + "; --move-tags moves it"
	default:
		return ""
	}
}
