package standing

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// EventsNamespace is where the Events about objects without a namespace are; the API
// server allows no other.
const EventsNamespace = metav1.NamespaceDefault

// EventsRule returns what a role in EventsNamespace has to allow for Events to be written. Each
// is written once and never changed, as nothing is reported repeatedly.
func EventsRule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}}
}

// controller is who reports, as Events have it.
const controller = "mirrorset-guard.io/standing-verification"

// Events returns a Reporter that writes Kubernetes Events in the name of instance, usually a
// pod. A Report without an object has no Event.
//
// client-go's recorders are not used: they silently drop what cannot be written.
func Events(client clienteventsv1.EventsGetter, instance string) Reporter {
	return ReporterFunc(func(ctx context.Context, r Report) error {
		if r.Object == nil {
			return nil
		}
		_, err := client.Events(EventsNamespace).Create(ctx, event(r, instance), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("writing an Event: %w", err)
		}
		return nil
	})
}

// maxInstance is what the API server takes for the name of an instance.
const maxInstance = 128

func event(r Report, instance string) *eventsv1.Event {
	kind := kindOf(r.Object)
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "mirrorset-guard-", Namespace: EventsNamespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: controller,
		ReportingInstance:   instance[:min(len(instance), maxInstance)],
		Action:              "Verifying",
		Reason:              r.Reason,
		Regarding: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: r.Object.GetName(), UID: r.Object.GetUID(),
		},
		Note: r.Note,
		Type: corev1.EventTypeNormal,
	}
	if r.Reason == MirrorLostImage {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// kindOf returns the kind of o, which the items of a list do not name.
func kindOf(o mirrors.Object) schema.GroupVersionKind {
	for _, gvk := range []schema.GroupVersionKind{mirrors.TagMirrorSetGVK, mirrors.DigestMirrorSetGVK, mirrors.ContentPolicyGVK} {
		if gvk.Kind == mirrors.KindOf(o) {
			return gvk
		}
	}
	return schema.GroupVersionKind{Kind: mirrors.KindOf(o)}
}
