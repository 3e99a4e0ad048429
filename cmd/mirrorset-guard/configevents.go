package main

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// theGuard is what Events are about that have no object of their own.
var theGuard = corev1.ObjectReference{
	APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration", Name: webhook.ServiceName,
}

// The reasons of Events about the configuration file.
const (
	configurationReloaded = "ConfigurationReloaded"
	configurationRejected = "ConfigurationRejected"
)

// configEvents returns what writes an Event about each new configuration file, in the name of
// instance. They are about the webhook configuration: it is what the guard is to a cluster and,
// like the mirror sets, has no namespace, so that it takes no further right.
func configEvents(client clienteventsv1.EventsGetter, instance string) func(context.Context, config.Outcome) error {
	return func(ctx context.Context, o config.Outcome) error {
		return events.Write(ctx, client, configEvent(o, instance))
	}
}

func configEvent(o config.Outcome, instance string) *eventsv1.Event {
	e := events.New("configuration", instance)
	e.Action, e.Reason, e.Regarding, e.Type = "Reloading", configurationReloaded, theGuard, corev1.EventTypeNormal
	e.Note = "The new configuration in " + text.Line(o.Path) + " is in force"
	if o.Err != nil {
		e.Reason, e.Type = configurationRejected, corev1.EventTypeWarning
		e.Note = "The configuration in " + text.Line(o.Path) + " is not in force, and the last good one still is: " + text.Line(o.Err.Error())
	}
	e.Note = events.CutNote(e.Note)
	return e
}
