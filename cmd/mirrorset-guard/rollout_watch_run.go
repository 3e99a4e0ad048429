package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// A watcher follows the rollouts of a cluster until its goal is reached or missed.
type watcher struct {
	*watchOptions
	goal      status.Goal
	inventory *live.Inventory
	reader    *rollouts.Reader
	tracker   *progress.Tracker
	printer   watchPrinter
	streams   streams

	began    time.Time
	seen     [2]uint64 // what ProgressChanges and MirrorChanges were when it looked last
	looked   time.Time
	reach    status.Reach
	noSet    error // why the mirror objects could not be read
	operator *status.Operator
	away     away
	lost     time.Time // since when there are no pools, zero if there are
	unmet    unmet

	diagnosing bool
	diagnosed  chan diagnosed
}

func (o *watchOptions) watcher(s streams) (*watcher, error) {
	config, err := o.cluster.config()
	if err != nil {
		return nil, err
	}
	inventory, err := live.New(config, live.Options{OnlyProgress: true, ForbiddenAfter: forbiddenTimeout})
	if err != nil {
		return nil, err
	}
	w := &watcher{
		watchOptions: o, goal: status.Goal{Pools: o.pools}, inventory: inventory, reader: rollouts.NewReader(inventory),
		tracker: progress.NewTracker(progress.Settings{StallAfter: o.stallAfter}), streams: s, began: o.now(), diagnosed: make(chan diagnosed, 1),
	}
	w.printer, err = o.printer(s)
	return w, err
}

// lookEvery is how often a watcher asks what it follows whether there is news, which takes no
// request, and the terminal for its size.
const lookEvery = 200 * time.Millisecond

// run watches until the end. Its error is errDenied if that has been said, and is no good.
func (w *watcher) run(ctx context.Context) error {
	// client-go would write on the screen that a request was cancelled.
	running, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() { w.inventory.Run(running) }) //nolint:errcheck // it returns nil, and ends with running
	meanwhile.Go(func() { w.printer.run(running) })
	defer func() {
		stop()
		meanwhile.Wait()
	}()
	if err := w.ready(running); err != nil {
		return err
	}
	outcome, err := w.watch(running)
	if closing := w.printer.close(w.view(w.now())); closing != nil && err == nil {
		err = closing
	}
	if err == nil && !outcome.good {
		err = errDenied
	}
	return err
}

// ready waits until the cluster has been read.
func (w *watcher) ready(ctx context.Context) error {
	if err := awaitRead(ctx, w.streams.err, w.inventory, rolloutTimeout); err != nil {
		return err
	}
	for _, s := range w.inventory.Sources() {
		if s.Name == workloads.Nodes && s.IsForbidden() {
			return fmt.Errorf("nodes could not be read, and so not whether they are done: it takes the rights of the ClusterRole cluster-reader: %w", s.Lacking)
		}
	}
	return nil
}

// watch looks again and again, and returns what comes of it.
func (w *watcher) watch(ctx context.Context) (watchOutcome, error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now := w.now()
		if err := w.look(ctx, now); err != nil {
			return watchOutcome{}, w.interrupted(ctx, err)
		}
		if o, err := w.judge(now); o != nil || err != nil {
			return w.say(now, o), err
		}
		if err := w.printer.draw(w.view(now)); err != nil {
			return watchOutcome{}, err
		}
		waited := time.Now()
		select {
		case <-ctx.Done():
			return watchOutcome{}, w.interrupted(ctx, context.Cause(ctx))
		case <-ticker.C:
			w.slept(time.Since(waited))
		}
	}
}

// leastSleep is a wait for the ticker that is too long for a machine that is only busy.
const leastSleep = 5 * time.Second

// slept keeps what did not move while this program was stopped, as by Ctrl-Z, from counting
// against a pool. The time for which the machine itself sleeps never counts: clocks that measure
// durations stand still.
func (w *watcher) slept(d time.Duration) {
	if d >= leastSleep {
		w.tracker.Blind(d)
		w.unmet.blind(d)
	}
}

// say prints the event with which a watch ends.
func (w *watcher) say(now time.Time, o *watchOutcome) watchOutcome {
	if o == nil {
		return watchOutcome{}
	}
	kind := watchMissed
	if o.good {
		kind = watchReached
	}
	_ = w.printer.print([]progress.Event{{Time: now, Type: kind, Message: o.message}}) // close tells of a broken stream
	return *o
}

// interrupted says how far a watch was that was ended from outside.
func (w *watcher) interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		cause = errors.New("interrupted")
	}
	if w.reach.Missing != "" {
		return fmt.Errorf("%w; still missing: %s", cause, w.reach.Missing)
	}
	return fmt.Errorf("%w; it is not known what is still missing", cause)
}

// look takes in what is new.
func (w *watcher) look(ctx context.Context, now time.Time) error {
	if is, events := w.away.look(w.inventory.Sources(), now); is || len(events) > 0 {
		if err := w.printer.print(events); is || err != nil {
			return err
		}
		w.tracker.Blind(w.away.lasted)
		w.unmet.blind(w.away.lasted)
		w.looked = time.Time{}
	}
	var events []progress.Event
	if w.isDue(now) {
		var err error
		if events, err = w.observe(ctx, now); err != nil {
			return err
		}
	}
	return w.printer.print(w.counted(append(events, w.diagnose(ctx, now)...)))
}

// lookAgain is how long something that could not be read is left alone without news.
const lookAgain = 5 * time.Second

// isDue reports whether there is news, or something to be asked for again.
func (w *watcher) isDue(now time.Time) bool {
	seen := [2]uint64{w.inventory.ProgressChanges(), w.inventory.MirrorChanges()}
	if seen == w.seen && now.Sub(w.looked) < lookAgain {
		return false
	}
	if seen[1] != w.seen[1] {
		w.reader.Forget()
	}
	w.seen, w.looked = seen, now
	return true
}

func (w *watcher) observe(ctx context.Context, now time.Time) ([]progress.Event, error) {
	in, err := w.reader.Input(ctx, now)
	if err != nil {
		return nil, w.noInput(err, now)
	}
	w.lost = time.Time{}
	if w.operator == nil { // for the first time
		if err := w.checkPools(in.Cluster.Pools); err != nil {
			return nil, err
		}
	}
	sight := progress.Sight{Input: in, Time: now}
	sight.Mirrors, w.noSet = w.reader.Mirrors(ctx, in.Cluster, now)
	events := w.tracker.Observe(sight)
	reach := w.reachOf(sight)
	if reach.Reached { // what has changed in this moment counts too
		w.reader.Forget()
		sight.Mirrors, w.noSet = w.reader.Mirrors(ctx, in.Cluster, now)
		reach = w.reachOf(sight)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err // what was known before is said, not that this could not be read to its end
	}
	w.reach = reach
	w.operator = &status.Operator{}
	if o := w.tracker.Status().Operator; o != nil {
		w.operator = o
	}
	return events, nil
}

// noInput returns why there is nothing to be watched, once that has lasted: an API server that
// starts may not serve all at once.
func (w *watcher) noInput(err error, now time.Time) error {
	if w.lost.IsZero() {
		w.lost = now
	}
	if w.operator == nil || now.Sub(w.lost) >= unknownFor {
		return err
	}
	return nil
}

func (w *watcher) reachOf(s progress.Sight) status.Reach {
	if s.Mirrors == nil {
		return status.Reach{Unknown: fmt.Sprintf("what the mirror objects ask for could not be read: %v", w.noSet)}
	}
	return status.ReachOf(status.VerifyInput{Input: s.Input, Mirrors: *s.Mirrors}, w.goal)
}

// A diagnosed is the result of reading the whole cluster.
type diagnosed struct {
	diagnosis status.Diagnosis
	in        status.Input
	err       error
}

// diagnose begins a diagnosis if one is due, and takes in one that is done.
func (w *watcher) diagnose(ctx context.Context, now time.Time) []progress.Event {
	if !w.diagnosing && w.tracker.WantsDiagnosis(now) {
		w.diagnosing = true
		go func() { w.diagnosed <- w.readAll(ctx) }()
	}
	select {
	case d := <-w.diagnosed:
		w.diagnosing = false
		if d.err != nil { // the pool then has not moved for no reason that is known
			d.diagnosis.Findings = nil
		}
		return w.tracker.Diagnosed(d.diagnosis, d.in.Cluster, now)
	default:
		return nil
	}
}

// readAll diagnoses the cluster as rollout diagnose does, with its pods.
func (w *watcher) readAll(ctx context.Context) diagnosed {
	world := rolloutWorld{cluster: w.cluster}
	view, err := world.read(ctx, silent)
	if err != nil {
		return diagnosed{err: err}
	}
	defer view.stop()
	set, err := view.source.Mirrors(ctx)
	view.MirrorsUnknown = err
	return diagnosed{diagnosis: status.Diagnose(view.Input, set), in: view.Input}
}

// An away knows since when the API server does not answer.
type away struct {
	since  time.Time // zero while it answers
	err    error
	lasted time.Duration // the last time
}

// look reports whether the API server is away, by what is followed of pools and nodes, and
// what is to be said of it.
func (a *away) look(sources []follow.Status, now time.Time) (is bool, events []progress.Event) {
	i := slices.IndexFunc(sources, func(s follow.Status) bool {
		return (s.Name == workloads.Nodes || s.Name == poolSource) && s.IsReadable() && (s.Err != nil || s.Stale)
	})
	switch {
	case i >= 0 && a.since.IsZero():
		a.since, a.err = now, sources[i].Err
		return true, []progress.Event{{Time: now, Type: watchAway, Message: "The API server does not answer any more.", Causes: [][]string{{a.why()}}}}
	case i >= 0:
		a.err = sources[i].Err
		return true, nil
	case !a.since.IsZero():
		a.lasted = now.Sub(a.since)
		*a = away{lasted: a.lasted}
		return false, []progress.Event{{Time: now, Type: watchBack, Message: fmt.Sprintf("The API server answers again, after %s.", progress.Short(a.lasted))}}
	default:
		return false, nil
	}
}

const poolSource = "machineconfigpools.machineconfiguration.openshift.io"

// text says since when, in a sentence.
func (a *away) text(now time.Time) string {
	if a.since.IsZero() {
		return ""
	}
	text := fmt.Sprintf("The API server does not answer since %s", a.since.Format(time.TimeOnly))
	if now.Sub(a.since) >= time.Second {
		text += fmt.Sprintf(" (%s)", progress.Short(now.Sub(a.since)))
	}
	return text + ": " + a.why()
}

// why says what is the matter, without the address of the request.
func (a *away) why() string {
	return cmp.Or(wordsOf(a.err), "nothing has been heard of it")
}

// refused reports whether the API server is there, and lets us read nothing any more.
func (a *away) refused() bool {
	return apierrors.IsForbidden(a.err) || apierrors.IsUnauthorized(a.err)
}
