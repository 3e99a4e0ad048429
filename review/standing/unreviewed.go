package standing

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/serving"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// The reasons of Events about how the webhooks are registered.
const (
	registrationChanged  = "RegistrationChanged"
	registrationRestored = "RegistrationRestored"
	// changedWithoutReview is that of Events about objects that say where nodes pull from, or how, and
	// that no webhook sees.
	changedWithoutReview = "ChangedWithoutReview"
	// renderedDiffers is that of Events about pools that are to get what no object asks for.
	renderedDiffers = "RenderedDiffers"
)

// registrationPause bounds the Events about the registration: who changes it again and again is
// told of once in this time.
const registrationPause = 10 * time.Second

// UnreviewedOptions are what NewUnreviewed needs.
type UnreviewedOptions struct {
	// Suspect is that of the Verifier.
	Suspect func(what string)
	// Registration returns how the webhooks are registered, and a channel closed once that has changed.
	Registration func() (serving.Registration, <-chan struct{})
	Client       clienteventsv1.EventsGetter
	Instance     string                 // in whose name Events are, usually a pod
	Guard        corev1.ObjectReference // what they are about
	Log          logr.Logger
}

// Unreviewed has the configuration in force verified at once when something has changed that decides
// where nodes pull from and that no webhook sees, or how the webhooks are registered; and tells of it
// in Events.
type Unreviewed struct {
	options UnreviewedOptions
	waiting chan watchloop.Report
}

// NewUnreviewed returns one to which nothing has been reported.
func NewUnreviewed(o UnreviewedOptions) *Unreviewed {
	return &Unreviewed{o, make(chan watchloop.Report, maxUnreviewed)}
}

// Unseen says which changes the registration would let pass unreviewed, for reports of lost images.
func (u *Unreviewed) Unseen() string {
	registration, _ := u.options.Registration()
	return registration.String()
}

// TellRegistration writes an Event whenever the webhooks are no longer registered as they were
// installed, or are again, until ctx ends. Meanwhile the standing verification says what may have
// passed, and begins a round at each such change.
func (u *Unreviewed) TellRegistration(ctx context.Context) {
	author := events.Author{Part: "registration", Instance: u.options.Instance, Action: "Comparing"}
	var told serving.Registration
	for ctx.Err() == nil {
		now, news := u.options.Registration()
		if now.String() != told.String() {
			u.options.Suspect("ValidatingWebhookConfiguration " + u.options.Guard.Name)
			u.options.Log.Info("Registration of the webhooks changed", "differences", now.Differences)
			if err := u.write(ctx, author, registrationReport(now, told)); err != nil {
				u.options.Log.Error(err, "Could not tell of the registration of the webhooks")
			} else {
				told = now
			}
			_ = pause.For(ctx, registrationPause, nil)
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

// write writes an Event about the guard.
func (u *Unreviewed) write(ctx context.Context, author events.Author, r watchloop.Report) error {
	return watchloop.Events(u.options.Client, author, &u.options.Guard)(ctx, r)
}

func registrationReport(now, before serving.Registration) watchloop.Report {
	if len(now.Differences) > 0 {
		return watchloop.Report{Reason: registrationChanged, Note: now.String(), Warning: true}
	}
	return watchloop.Report{Reason: registrationRestored, Note: "The webhooks are registered as they were installed; changes may have passed unseen from " +
		before.Since.UTC().Format(time.RFC3339) + " to " + time.Now().UTC().Format(time.RFC3339)}
}

// maxUnreviewed bounds what waits for its Event: MachineConfigs may change by the dozen.
const maxUnreviewed = 16

// Suspect has the configuration in force verified at once, as objects have changed that no webhook sees.
// It does not wait.
func (u *Unreviewed) Suspect(objects []string) {
	for _, object := range objects {
		note := object + " has changed, which decides what nodes pull and from where, and is not reviewed. The mirror configuration in force is verified anew"
		u.suspect(object, watchloop.Report{Reason: changedWithoutReview, Note: note})
	}
}

// SuspectTarget does so as a pool is to get what no object asks for. No node need have it yet.
func (u *Unreviewed) SuspectTarget(d verify.TargetDifference) {
	note := d.String() + `. "mirrorset-guard rollout verify" shows all; "mirrorset-guard rollout pause" keeps it from nodes that have not begun`
	u.suspect("MachineConfig "+d.Config, watchloop.Report{Reason: renderedDiffers, Note: note, Warning: true})
}

func (u *Unreviewed) suspect(object string, news watchloop.Report) {
	u.options.Log.Info("Changed without a review", "object", object, "reason", news.Reason)
	u.options.Suspect(object)
	select {
	case u.waiting <- news:
	default:
	}
}

// Tell writes an Event about what changes from now on without a review, one a second at most,
// until ctx ends.
func (u *Unreviewed) Tell(ctx context.Context) {
	for range len(u.waiting) {
		<-u.waiting // it was another replica's to tell
	}
	for {
		select {
		case <-ctx.Done():
			return
		case news := <-u.waiting:
			if err := u.write(ctx, Author(u.options.Instance), news); err != nil {
				u.options.Log.Error(err, "Could not tell of what changed without a review", "note", news.Note)
			}
		}
		_ = pause.For(ctx, time.Second, nil)
	}
}
