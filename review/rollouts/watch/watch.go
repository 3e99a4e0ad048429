// Package watch follows the rollouts of a cluster until every node has what it is to have, or until
// that does not come. Command rollout watch shows it.
//
//	inventory, err := environment.Progress(config)
//	w := watch.New(inventory, watch.Options{Print: print, Config: readConfig})
//	outcome, err := w.Run(ctx)
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// Options say what to wait for, and who sees it.
type Options struct {
	// Goal is what every node is to have. Its Pools are those that count, all if there are none.
	Goal       verify.Goal
	StallAfter time.Duration // that of progress.NewTracker
	KeepGoing  bool          // when a pool is degraded or stalled
	Now        func() time.Time
	Print      func([]progress.Event) error // takes what has happened
	Progress   io.Writer                    // of reading the cluster at first
	// Check is called with the pools that are there at first. Its error ends the watch.
	Check func([]*mcfgv1.MachineConfigPool) error
	// Config leads to the cluster. It is called for each diagnosis: credentials may be new.
	Config func() (*rest.Config, error)
}

// A Watcher follows the rollouts of a cluster until its goal is reached or missed.
type Watcher struct {
	Options
	inventory *cluster.Inventory
	reader    *rollouts.Reader
	tracker   *progress.Tracker

	seen   [2]uint64 // ProgressChanges and MirrorChanges at the last look
	looked time.Time
	reach  verify.Reach
	noSet  error // why the mirror objects could not be read
	begun  bool  // it has seen pools
	away   away
	lost   time.Time // since when there are no pools, zero if there are
	unmet  unmet

	diagnosing bool
	diagnosed  chan diagnosed
}

// New returns a Watcher of a cluster that environment.Progress has opened.
func New(inventory *cluster.Inventory, o Options) *Watcher {
	return &Watcher{
		Options: o, inventory: inventory, reader: rollouts.NewReader(inventory),
		tracker: progress.NewTracker(o.StallAfter), diagnosed: make(chan diagnosed, 1),
	}
}

// lookEvery is how often a watcher asks what it follows whether there is news, which takes no request.
const lookEvery = 200 * time.Millisecond

// Run watches until the end, and returns how it ended. The error says why there is no outcome.
func (w *Watcher) Run(ctx context.Context) (Outcome, error) {
	// client-go would write in between that a request was cancelled.
	running, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() { w.inventory.Run(running) }) //nolint:errcheck // it returns nil, and ends with running
	defer func() {
		stop()
		meanwhile.Wait()
	}()
	if err := w.ready(running); err != nil {
		return Outcome{}, err
	}
	return w.watch(running)
}

// ready waits until the cluster has been read.
func (w *Watcher) ready(ctx context.Context) error {
	if err := environment.AwaitRead(ctx, w.Progress, w.inventory, environment.RolloutTimeout); err != nil {
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
func (w *Watcher) watch(ctx context.Context) (Outcome, error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now := w.Now()
		if err := w.look(ctx, now); err != nil {
			return Outcome{}, w.interrupted(ctx, err)
		}
		if o, err := w.judge(now); o != nil || err != nil {
			return w.say(now, o), err
		}
		waited := time.Now()
		select {
		case <-ctx.Done():
			return Outcome{}, w.interrupted(ctx, context.Cause(ctx))
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
func (w *Watcher) slept(d time.Duration) {
	if d >= leastSleep {
		w.tracker.Blind(d)
		w.unmet.blind(d)
	}
}

// say prints the event with which a watch ends.
func (w *Watcher) say(now time.Time, o *Outcome) Outcome {
	if o == nil {
		return Outcome{}
	}
	kind := Missed
	if o.Good {
		kind = Reached
	}
	_ = w.Print([]progress.Event{{Time: now, Type: kind, Message: o.message}}) // the exit code says it, too
	return *o
}

// interrupted says how far a watch was that was ended from outside.
func (w *Watcher) interrupted(ctx context.Context, err error) error {
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

// look takes in changes.
func (w *Watcher) look(ctx context.Context, now time.Time) error {
	if is, events := w.away.look(w.inventory.Sources(), now); is || len(events) > 0 {
		if err := w.Print(events); is || err != nil {
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
	return w.Print(w.counted(append(events, w.diagnose(ctx, now)...)))
}

// rereadAfter is the time after which what could not be read is read again without news.
const rereadAfter = 5 * time.Second

// isDue reports whether there is news, or something to be asked for again.
func (w *Watcher) isDue(now time.Time) bool {
	seen := [2]uint64{w.inventory.ProgressChanges(), w.inventory.MirrorChanges()}
	if seen == w.seen && now.Sub(w.looked) < rereadAfter {
		return false
	}
	if seen[1] != w.seen[1] {
		w.reader.Forget()
	}
	w.seen, w.looked = seen, now
	return true
}

func (w *Watcher) observe(ctx context.Context, now time.Time) ([]progress.Event, error) {
	in, err := w.reader.Input(ctx, now)
	if err != nil {
		return nil, w.noInput(err, now)
	}
	w.lost = time.Time{}
	if !w.begun {
		if err := w.Check(in.Cluster.Pools); err != nil {
			return nil, err
		}
	}
	sight := progress.Sight{Input: in, Time: now}
	sight.Mirrors, w.noSet = w.reader.Mirrors(ctx, in.Cluster, now)
	events := w.tracker.Observe(sight)
	reach := w.reachOf(sight)
	if reach.Reached { // changes of this moment count too
		w.reader.Forget()
		sight.Mirrors, w.noSet = w.reader.Mirrors(ctx, in.Cluster, now)
		reach = w.reachOf(sight)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err // the last state is said, not that this could not be read to its end
	}
	w.reach = reach
	w.begun = true
	return events, nil
}

// noInput returns why there is nothing to be watched, once that has lasted: an API server that
// starts may not serve all at once.
func (w *Watcher) noInput(err error, now time.Time) error {
	if w.lost.IsZero() {
		w.lost = now
	}
	if !w.begun || now.Sub(w.lost) >= unknownFor {
		return err
	}
	return nil
}

func (w *Watcher) reachOf(s progress.Sight) verify.Reach {
	if s.Mirrors == nil {
		return verify.Reach{Unknown: fmt.Sprintf("what the mirror objects ask for could not be read: %v", w.noSet)}
	}
	return verify.ReachOf(verify.Input{Input: s.Input, Mirrors: *s.Mirrors}, w.Goal)
}

// A diagnosed is the result of reading the whole cluster.
type diagnosed struct {
	diagnosis causes.Diagnosis
	cluster   rollout.Cluster
}

// diagnose begins a diagnosis if one is due, and takes in one that is done.
func (w *Watcher) diagnose(ctx context.Context, now time.Time) []progress.Event {
	if !w.diagnosing && w.tracker.WantsDiagnosis(now) {
		w.diagnosing = true
		go func() { w.diagnosed <- w.readAll(ctx) }()
	}
	select {
	case d := <-w.diagnosed:
		w.diagnosing = false
		return w.tracker.Diagnosed(d.diagnosis, d.cluster, now)
	default:
		return nil
	}
}

// readAll diagnoses the cluster as rollout diagnose does, with its pods. If it cannot be read, nothing is known that holds pools up.
func (w *Watcher) readAll(ctx context.Context) diagnosed {
	unread := diagnosed{cluster: rollout.Cluster{Unknown: []string{workloads.Pods}}}
	config, err := w.Config()
	if err != nil {
		return unread
	}
	read, err := environment.OpenRollout(ctx, config, io.Discard)
	if err != nil {
		return unread
	}
	defer read.Close()
	set, err := read.Source.Mirrors(ctx)
	read.MirrorsUnknown = err
	return diagnosed{causes.Diagnose(read.Input, set), read.Cluster}
}
