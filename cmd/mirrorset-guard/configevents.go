package main

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

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
		_, err := client.Events(standing.EventsNamespace).Create(ctx, configEvent(o, instance), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("writing an Event: %w", err)
		}
		return nil
	}
}

const (
	// maxEventNote and maxEventInstance are what the API server takes
	// (k8s.io/kubernetes/pkg/apis/core/validation/events.go): 1,024 bytes, of which a rune has
	// up to four, and 128.
	maxEventNote     = 1024 / 4
	maxEventInstance = 128
)

func configEvent(o config.Outcome, instance string) *eventsv1.Event {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "mirrorset-guard-", Namespace: standing.EventsNamespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "mirrorset-guard.io/configuration",
		ReportingInstance:   instance[:min(len(instance), maxEventInstance)],
		Action:              "Reloading",
		Reason:              configurationReloaded,
		Regarding: corev1.ObjectReference{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration", Name: webhook.ServiceName,
		},
		Note: "The new configuration in " + text.Line(o.Path) + " is in force",
		Type: corev1.EventTypeNormal,
	}
	if o.Err != nil {
		e.Reason, e.Type = configurationRejected, corev1.EventTypeWarning
		e.Note = "The configuration in " + text.Line(o.Path) + " is not in force, and the last good one still is: " + text.Line(o.Err.Error())
	}
	e.Note = text.Cut(e.Note, maxEventNote)
	return e
}
