package config

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
)

// The reasons of Events about the configuration file.
const (
	configurationReloaded = "ConfigurationReloaded"
	configurationRejected = "ConfigurationRejected"
)

// Events returns a function that writes an Event about each new configuration file, for guard, in the
// name of instance.
func Events(client clienteventsv1.EventsGetter, instance string, guard corev1.ObjectReference) func(context.Context, Outcome) error {
	return func(ctx context.Context, o Outcome) error {
		return events.Write(ctx, client, event(o, instance, guard))
	}
}

func event(o Outcome, instance string, guard corev1.ObjectReference) *eventsv1.Event {
	author := events.Author{Part: "configuration", Instance: instance, Action: "Reloading"}
	if o.Err != nil {
		return author.Event(guard, configurationRejected, "The configuration in "+o.Path+" is not in force, and the last good one still is: "+o.Err.Error(), true)
	}
	return author.Event(guard, configurationReloaded, "The new configuration in "+o.Path+" is in force", false)
}
