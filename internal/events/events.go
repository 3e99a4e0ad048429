// Package events makes the Kubernetes Events by which the guard tells of what it finds.
//
// client-go's recorders are not used: they silently drop what cannot be written. Each Event is
// written once and never changed, as nothing is reported repeatedly, so that the right to
// create Events is all it takes.
package events

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
)

// Namespace is where the Events about objects without a namespace are; the API server allows
// no other.
const Namespace = metav1.NamespaceDefault

// What the API server takes (k8s.io/kubernetes/pkg/apis/core/validation/events.go), in bytes.
const (
	maxNote     = 1024
	maxInstance = 128
)

// Rule returns what a role in Namespace has to allow for Events to be written.
func Rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}}
}

// New returns an Event of this moment by a part of the guard ("configuration"), in the name of
// instance, usually a pod. It says nothing yet.
func New(part, instance string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "mirrorset-guard-", Namespace: Namespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "mirrorset-guard.io/" + part,
		ReportingInstance:   instance[:min(len(instance), maxInstance)],
	}
}

// Write writes e.
func Write(ctx context.Context, client clienteventsv1.EventsGetter, e *eventsv1.Event) error {
	if _, err := client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("writing an Event: %w", err)
	}
	return nil
}

// CutNote shortens the note of an Event to what the API server takes, between two characters.
func CutNote(note string) string {
	const mark = "…"
	if len(note) <= maxNote {
		return note
	}
	end := maxNote - len(mark)
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + mark
}
