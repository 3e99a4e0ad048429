package standing

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Events returns a Reporter that writes Kubernetes Events in the name of instance, usually a
// pod. Those of a Report without an object, as where a file of a MachineConfig sends images to mirrors,
// are about otherwise. It needs the right of events.Rule.
func Events(client clienteventsv1.EventsGetter, instance string, otherwise corev1.ObjectReference) Reporter {
	return func(ctx context.Context, r Report) error {
		regarding := otherwise
		if r.Object != nil {
			regarding = ReferenceTo(r.Object)
		}
		return events.Write(ctx, client, event(r, instance, regarding))
	}
}

func event(r Report, instance string, regarding corev1.ObjectReference) *eventsv1.Event {
	e := events.New("standing-verification", instance)
	e.Action, e.Reason, e.Regarding, e.Note, e.Type = "Verifying", r.Reason, regarding, r.Note, corev1.EventTypeNormal
	if r.Reason == MirrorLostImage {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// ReferenceTo returns what Events about o regard.
func ReferenceTo(o mirrors.Object) corev1.ObjectReference {
	kind := kindOf(o)
	return corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: o.GetName(), UID: o.GetUID()}
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
