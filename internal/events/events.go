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

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Namespace is where the Events about objects without a namespace are; the API server allows
// no other.
const Namespace = metav1.NamespaceDefault

// The limits of the API server (k8s.io/kubernetes/pkg/apis/core/validation/events.go), in bytes.
const (
	maxNote     = 1024
	maxInstance = 128
)

// Rule returns what a role in Namespace has to allow for Events to be written.
func Rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}}
}

// An Author is the part of the guard that writes Events.
type Author struct {
	Part     string // "configuration"
	Instance string // usually a pod
	Action   string // what it does or did ("Reloading")
}

// Event returns an Event of this moment, a warning or a normal one. It has as much of note, in one
// line, as the API server takes.
func (a Author) Event(regarding corev1.ObjectReference, reason, note string, warning bool) *eventsv1.Event {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "mirrorset-guard-", Namespace: Namespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "mirrorset-guard.io/" + a.Part,
		ReportingInstance:   a.Instance[:min(len(a.Instance), maxInstance)],
		Action:              a.Action,
		Reason:              reason,
		Regarding:           regarding,
		Note:                Note(note),
		Type:                corev1.EventTypeNormal,
	}
	if warning {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// Write writes e.
func Write(ctx context.Context, client clienteventsv1.EventsGetter, e *eventsv1.Event) error {
	if _, err := client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("writing an Event: %w", err)
	}
	return nil
}

// Note returns a note in one line, shortened between two characters to what the API server takes of an
// Event's.
func Note(note string) string {
	const mark = "…"
	note = text.Line(note)
	if len(note) <= maxNote {
		return note
	}
	end := maxNote - len(mark)
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + mark
}
