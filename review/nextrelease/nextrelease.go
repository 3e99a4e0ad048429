// Package nextrelease judges the release that a cluster is to be updated to again and again, so that the images which
// its mirrors lack, or lose while it waits, are known before the update.
//
// The release is the one that the house has marked (readiness.Marked); most mirrors lack the others. It is judged as by the
// command release (readiness.Judge), by the configuration in force. As with the standing verification, the Store asks
// registries in the background, and only images that look missing are looked up on purpose, so that no review of a change
// waits for this. Its verdict is in metrics, in a document, and in Events whenever it has changed.
//
//	w, err := nextrelease.New(nextrelease.Options{...})
//	w.Configure(nextrelease.Desired)
//	go w.Run(leading) // in the leader, as long as it is one
//	w.Document()      // in every replica
package nextrelease

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A Setting says which release is judged.
type Setting string

// The settings, as the configuration has them.
const (
	Off         Setting = "off"
	Desired     Setting = target.Desired
	Recommended Setting = target.Recommended
)

// A Cluster is one whose release may be updated. *cluster.Inventory is one.
type Cluster interface {
	judge.Cluster
	// ProgressObjects are those of RolloutObjects that take no time with many pods.
	ProgressObjects() workloads.Objects
}

// Options are what New needs.
type Options struct {
	Cluster Cluster
	// Reviewer is how changes are reviewed. The Store is used instead of its Registries.
	Reviewer review.Reviewer
	Store    standing.Store
	// Client asks for release images.
	Client transfer.Registries
	// Outlet is where the news go, which are about the ClusterVersion.
	Outlet watchloop.Outlet
	// Every is the time between two rounds, give or take a quarter. The round after an inconclusive one comes sooner.
	Every time.Duration
	// Elsewhere says which replica judges if this one does not.
	Elsewhere string
	// Log receives what goes wrong. The zero value discards it.
	Log logr.Logger
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
}

// A Watcher judges the next release. It is safe for concurrent use; Run must not run twice at a time.
type Watcher struct {
	options Options
	metrics *metrics
	loop    *watchloop.Loop

	payloads judge.Payloads // for Run alone

	mu      sync.Mutex
	setting Setting
	leads   bool                  // Run runs
	doc     *v1alpha1.NextRelease // nil if nothing was judged yet
	told    []answer.Block        // what people are told of doc.Review
}

// New returns a Watcher that is off. It is an error if its metrics are registered already.
func New(o Options) (*Watcher, error) {
	m, err := newMetrics(o.Metrics)
	return &Watcher{options: o, metrics: m, loop: watchloop.NewLoop(o.Every, "Could not judge the next release", o.Log), setting: Off}, err
}

// Configure puts a setting in force.
func (w *Watcher) Configure(s Setting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s != w.setting {
		w.setting = s
		w.loop.Soon()
	}
}

// Document returns the document about the next release; nil if that is not judged.
func (w *Watcher) Document() *v1alpha1.NextRelease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.document()
}

// document is Document for a holder of mu.
func (w *Watcher) document() *v1alpha1.NextRelease {
	switch {
	case w.setting == Off:
		return nil
	case !w.leads:
		return &v1alpha1.NextRelease{Updates: string(w.setting), Reason: w.options.Elsewhere}
	case w.doc == nil || w.doc.Updates != string(w.setting):
		return &v1alpha1.NextRelease{Updates: string(w.setting), Reason: "it was not judged yet"}
	default:
		return w.doc
	}
}

// Blocks are what a page says of the next release; none if that is not judged.
func (w *Watcher) Blocks() []answer.Block {
	w.mu.Lock()
	doc, told := w.document(), w.told
	w.mu.Unlock()
	if doc == nil {
		return nil
	}
	blocks := []answer.Block{answer.Section{ID: "release", Title: "The next release", Note: strings.ToLower(doc.Verdict)}}
	switch {
	case doc.Review != nil:
		blocks = append(blocks, told...)
	case doc.Marked != "":
		blocks = append(blocks, answer.Paragraphf("Release %s (%s) could not be judged: %s.", doc.Version, doc.Marked, doc.Reason))
	default:
		blocks = append(blocks, answer.Paragraphf("No release is judged: %s.", doc.Reason))
	}
	if doc.Judged != nil {
		blocks = append(blocks, answer.Paragraphf("Judged at %s.", answer.Moment(*doc.Judged)))
	}
	return blocks
}

func (w *Watcher) current() Setting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setting
}

func (w *Watcher) lead(does bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads = does
}

// publish makes doc the Document, of which people are told so.
func (w *Watcher) publish(doc *v1alpha1.NextRelease, told ...answer.Block) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doc, w.told = doc, told
}

// Topic is the topic under which the Store keeps the facts of the next release.
const Topic = "release"

// Run judges the next release and reports what has changed, until ctx ends. With the setting off it does nothing.
func (w *Watcher) Run(ctx context.Context) {
	l := ledger{first: true}
	w.lead(true)
	defer w.lead(false)
	defer w.rest()
	w.loop.Run(ctx, func(ctx context.Context) (settled bool, err error) { return w.round(ctx, w.current(), &l) })
}

// rest forgets what nothing would update.
func (w *Watcher) rest() {
	w.options.Store.Keep(Topic, nil, 0)
	w.metrics.none()
	w.publish(nil)
}

// roundTime is how long a round may take: the cluster and the release image are read, and what looks missing is looked up.
const roundTime = judge.ReadingTime + time.Minute

// round judges the release that is marked. It returns whether its verdict rests on all answers.
func (w *Watcher) round(ctx context.Context, s Setting, l *ledger) (settled bool, err error) {
	if s == Off {
		w.rest()
		*l = ledger{}
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	o := w.options.Cluster.ProgressObjects()
	choice, marked, err := target.Marked(o.Version, s == Recommended)
	doc := &v1alpha1.NextRelease{Updates: string(s), Marked: marked, Version: choice.Version}
	if marked == "" {
		w.rest()
		*l = ledger{}
		doc.Reason = unmarked(err, s, o.Unknown)
		w.publish(doc)
		return true, nil
	}
	found := verdict{marked: marked, choice: choice}
	if err == nil {
		found.readiness, settled, err = w.judge(ctx, choice)
	}
	if ctx.Err() != nil && found.readiness == nil {
		return false, nil // it was cut short, and the verdict is of the round before
	}
	if err != nil {
		found.reason, settled = text.Line(text.Cut(err.Error(), maxReason)), true
	}
	now := time.Now()
	doc.Judged, doc.Verdict, doc.Reason, doc.Version = &now, found.state().String(), found.reason, found.version()
	if r := found.readiness; r != nil {
		review := r.Document()
		doc.Review = &review
	}
	l.enter(found, settled)
	w.metrics.found(found, l.trial.Rounds(UpdateNotReady), now)
	w.publish(doc, found.blocks()...)
	return settled, w.options.Outlet.Pass(ctx, l.news)
}

// maxReason is how much is shown of why there is no review.
const maxReason = 1000

// unmarked says why no release is judged.
func unmarked(err error, s Setting, unknown []string) string {
	switch {
	case slices.Contains(unknown, workloads.Versions):
		return "ClusterVersion is not known at the moment"
	case err != nil:
		return err.Error()
	case s == Recommended:
		return "spec.desiredUpdate of ClusterVersion names no release but the one that runs, and ClusterVersion recommends none"
	default:
		return "spec.desiredUpdate of ClusterVersion names no release but the one that runs"
	}
}

// judge judges a release by known facts, and has the Store keep them fresh. Images that look missing are looked up
// once more first.
func (w *Watcher) judge(ctx context.Context, choice target.Release) (r *readiness.Readiness, settled bool, err error) {
	var mu sync.Mutex // parts of a release are looked up at once
	var asked []mirrors.Location
	once := map[mirrors.Location]bool{}
	known := w.options.Reviewer
	known.Registries = review.RegistriesFunc(func(_ context.Context, locs []mirrors.Location) policy.Facts {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range locs {
			if !once[l] {
				once[l] = true
				asked = append(asked, l)
			}
		}
		return w.options.Store.Known(locs)
	})
	defer func() { w.options.Store.Keep(Topic, asked, 0) }()
	in := judge.World{Cluster: w.options.Cluster, Reviewer: &known, Client: w.options.Client, Payloads: &w.payloads}
	r, err = judge.Release(ctx, in, choice)
	if err == nil && r.State() == readiness.NotReady && w.askAgain(ctx, r) {
		r, err = judge.Release(ctx, in, choice)
	}
	if err != nil {
		return nil, true, err
	}
	awaits := r.Judged.Facts.HasUnknown() || r.Version == "" && r.State() == readiness.Unknown
	return r, !awaits, nil
}

// askAgain looks up, as for a review, the images of r that are not ready, and reports whether there are any.
func (w *Watcher) askAgain(ctx context.Context, r *readiness.Readiness) bool {
	missing := map[string]bool{}
	for _, i := range r.Images {
		missing[i.Ref] = missing[i.Ref] || i.State == readiness.NotReady
	}
	doubtful := slices.DeleteFunc(slices.Clone(r.Judged.Plan.Reroutes), func(r evidence.Reroute) bool { return !missing[r.Image.Ref] })
	if len(doubtful) == 0 {
		return false
	}
	asking := w.options.Reviewer
	asking.Registries = w.options.Store
	asking.AskAgain(ctx, r.Judged.Plan, doubtful)
	return true
}
