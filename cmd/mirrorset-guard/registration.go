package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/serving"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
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

// tellRegistration writes an Event whenever the webhooks are no longer registered as they were
// installed, or are again, until ctx ends. Meanwhile the standing verification says what may have
// passed, and begins a round at each such change.
func (g *guard) tellRegistration(ctx context.Context) {
	var told serving.Registration
	for ctx.Err() == nil {
		now, news := g.tls.cluster.Registration()
		if now.String() != told.String() {
			g.standing.Suspect("ValidatingWebhookConfiguration " + theGuard.Name)
			g.log.Info("Registration of the webhooks changed", "differences", now.Differences)
			if err := events.Write(ctx, g.events, registrationEvent(now, told, instanceName())); err != nil {
				g.log.Error(err, "Could not tell of the registration of the webhooks")
			} else {
				told = now
			}
			select {
			case <-time.After(registrationPause):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

func registrationEvent(now, before serving.Registration, instance string) *eventsv1.Event {
	e := events.New("registration", instance)
	e.Action, e.Reason, e.Regarding, e.Type = "Comparing", registrationChanged, theGuard, corev1.EventTypeWarning
	e.Note = now.String()
	if len(now.Differences) == 0 {
		e.Reason, e.Type = registrationRestored, corev1.EventTypeNormal
		e.Note = "The webhooks are registered as they were installed; changes may have passed unseen from " +
			before.Since.UTC().Format(time.RFC3339) + " to " + time.Now().UTC().Format(time.RFC3339)
	}
	e.Note = events.CutNote(text.Line(e.Note))
	return e
}

// maxUnreviewed bounds what waits for its Event: MachineConfigs may change by the dozen.
const maxUnreviewed = 16

// An unreviewed is something that has changed where nodes pull from, and that no webhook has seen.
type unreviewed struct{ reason, eventType, note string }

// suspect has the configuration in force verified at once, as objects have changed that no webhook sees.
// It does not wait.
func (g *guard) suspect(objects []string) {
	for _, object := range objects {
		g.suspectOne(object, unreviewed{
			changedWithoutReview, corev1.EventTypeNormal,
			object + " has changed, which decides what nodes pull and from where, and is not reviewed. The mirror configuration in force is verified anew",
		})
	}
}

// suspectTarget does so as a pool is to get what no object asks for. No node need have it yet.
func (g *guard) suspectTarget(d status.TargetDifference) {
	g.suspectOne("MachineConfig "+d.Config, unreviewed{
		renderedDiffers, corev1.EventTypeWarning,
		d.String() + `. "mirrorset-guard rollout verify" shows all; "mirrorset-guard rollout pause" keeps it from nodes that have not begun`,
	})
}

func (g *guard) suspectOne(object string, u unreviewed) {
	g.log.Info("Changed without a review", "object", object, "reason", u.reason)
	g.standing.Suspect(object)
	select {
	case g.unreviewed <- u:
	default:
	}
}

// tellUnreviewed writes an Event about what changes from now on without a review, one a second at most,
// until ctx ends.
func (g *guard) tellUnreviewed(ctx context.Context) {
	for range len(g.unreviewed) {
		<-g.unreviewed // it was another replica's to tell
	}
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-g.unreviewed:
			if err := events.Write(ctx, g.events, u.event(instanceName())); err != nil {
				g.log.Error(err, "Could not tell of what changed without a review", "note", u.note)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (u unreviewed) event(instance string) *eventsv1.Event {
	e := events.New("standing-verification", instance)
	e.Action, e.Reason, e.Regarding, e.Type = "Verifying", u.reason, theGuard, u.eventType
	e.Note = events.CutNote(text.Line(u.note))
	return e
}

// unseen says what may have passed without a review as things are, for reports of what is lost.
func (g *guard) unseen() string {
	registration, _ := g.tls.cluster.Registration()
	return registration.String()
}
