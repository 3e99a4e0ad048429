package readiness

import (
	"context"
	"errors"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// UpdatesOptions are what NewUpdates needs.
type UpdatesOptions struct {
	// World is that of the cluster; its Payloads should be set.
	World World
	// Stored reads the ClusterVersion in force; nil if it cannot be read.
	Stored func(context.Context) (*configv1.ClusterVersion, error)
}

// Updates review the updates that users ask for. What a review had no time for is looked up after it, by Run, for the
// next one to find. They are safe for concurrent use.
type Updates struct {
	UpdatesOptions

	left    chan Choice
	awaited chan awaited

	mu     sync.Mutex
	queued map[string]bool // images of the releases in left
}

const (
	// maxLeft bounds the releases that wait to be looked up further, and furtherTime how long that may take for one.
	maxLeft     = 4
	furtherTime = 5 * time.Minute
	// maxAwaited bounds the updates that wait to be looked for, and followedAtOnce those that are; awaitedTime is how long
	// storing one may take (recent.MaxStoringTime says why), and awaitedEvery how often it is looked for.
	maxAwaited, followedAtOnce = 16, 4
	awaitedTime                = 35 * time.Second
	awaitedEvery               = 500 * time.Millisecond
)

// NewUpdates returns Updates for a cluster.
func NewUpdates(o UpdatesOptions) *Updates {
	return &Updates{UpdatesOptions: o, left: make(chan Choice, maxLeft), awaited: make(chan awaited, maxAwaited), queued: map[string]bool{}}
}

// Review judges the release that update leads to by the time ctx ends, whatever is known of it by then. update has to
// be one that asks for a release, see policy.Update.Asks. It does not fail: what cannot be found out is not known.
func (u *Updates) Review(ctx context.Context, update policy.Update, by policy.Requester) review.Record {
	start := time.Now()
	record := u.judge(ctx, update, by)
	record.Subject, record.Read, record.Took = update.Subject(), start, time.Since(start)
	return record
}

// Undetermined is the review of an update about which nothing could be found out, for a reason.
func (u *Updates) Undetermined(update policy.Update, why error, by policy.Requester) review.Record {
	release := update.Release()
	release.Open = []string{text.Line(text.Cut(why.Error(), maxReason))}
	return review.Record{Subject: update.Subject(), Verdict: u.World.Reviewer.DecideRelease(release, by)}
}

func (u *Updates) judge(ctx context.Context, update policy.Update, by policy.Requester) review.Record {
	choice, err := choiceOf(update)
	if errors.Is(err, errNotOffered) {
		return review.Record{
			Verdict: policy.Verdict{Allowed: true, Mode: u.World.Reviewer.Mode()},
			Notes:   []string{text.Line(err.Error())},
		}
	}
	if err != nil {
		return u.Undetermined(update, err, by)
	}
	r, err := Judge(ctx, u.World, choice)
	if ctx.Err() != nil {
		u.goOn(choice)
	}
	if err != nil {
		return u.Undetermined(update, err, by)
	}
	record := r.Record
	record.Notes, record.Verdict = r.Notes, u.World.Reviewer.DecideRelease(r.release(update.Release()), by)
	return record
}

// release says what r found about the release that is named.
func (r *Readiness) release(named policy.Release) policy.Release {
	named.Unread = r.Version == ""
	if r.Version != "" {
		named.Name = r.Version
	}
	named.Counts = policy.Counts{
		Total: len(r.Images), Rerouted: len(r.Images), Verified: r.Count(Ready), Unverified: r.Count(Unknown), Pending: r.Record.Verdict.Counts.Pending,
	}
	named.MissingImages, named.OpenImages = r.Count(NotReady), r.Count(Unknown)
	add := func(s State, line string) {
		switch s {
		case NotReady:
			named.Missing = append(named.Missing, text.Line(line))
		case Unknown:
			named.Open = append(named.Open, text.Line(line))
		}
	}
	add(r.Signature.State, "GPG signature: "+r.Signature.Reason)
	for i := range r.Images {
		add(r.Images[i].State, r.Images[i].Title()+": "+r.Images[i].reason())
	}
	for _, p := range r.Problems {
		add(p.State, p.Reason)
	}
	if r.State() == Unknown && len(named.Open) == 0 {
		add(Unknown, r.Summary())
	}
	named.Remedy = r.remedy()
	return named
}

// goOn has a release looked up further, unless too many wait for that.
func (u *Updates) goOn(c Choice) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.queued[c.Image] {
		return
	}
	select {
	case u.left <- c:
		u.queued[c.Image] = true
	default:
	}
}

// Await calls done with whether a ClusterVersion of which is holds was stored, once that is known. It does not wait.
func (u *Updates) Await(is func(*configv1.ClusterVersion) bool, done func(stored bool)) {
	select {
	case u.awaited <- awaited{is, done}:
	default:
		done(false)
	}
}

// An awaited is an update that may be stored.
type awaited struct {
	is   func(*configv1.ClusterVersion) bool
	done func(bool)
}

// Run looks up what reviews have left open, and finds out what became of updates, until ctx ends.
func (u *Updates) Run(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	for range followedAtOnce {
		loops.Go(func() { u.follow(ctx) })
	}
	for {
		select {
		case c := <-u.left:
			u.lookFurther(ctx, c)
		case <-ctx.Done():
			return
		}
	}
}

// lookFurther judges a release again, for nothing but what the registries then know of it.
func (u *Updates) lookFurther(ctx context.Context, c Choice) {
	ctx, cancel := context.WithTimeout(ctx, furtherTime)
	defer cancel()
	_ = panics.Recovered(func() error { // who asks next is told of it
		_, err := Judge(ctx, u.World, c)
		return err
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.queued, c.Image)
}

// follow finds out about one update after the other.
func (u *Updates) follow(ctx context.Context) {
	for {
		select {
		case a := <-u.awaited:
			stored := false
			_ = panics.Recovered(func() error {
				stored = u.isStored(ctx, a.is)
				return nil
			})
			a.done(stored)
		case <-ctx.Done():
			return
		}
	}
}

// isStored looks for an update until it is there, or cannot come any more.
func (u *Updates) isStored(ctx context.Context, is func(*configv1.ClusterVersion) bool) bool {
	if u.Stored == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, awaitedTime)
	defer cancel()
	ticker := time.NewTicker(awaitedEvery)
	defer ticker.Stop()
	for {
		if v, err := u.Stored(ctx); err == nil && v != nil && is(v) {
			return true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}
