package webhook

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
)

// SubjectAccessReviews returns an Authorizer that asks the API server.
func SubjectAccessReviews(client clientauthorizationv1.SubjectAccessReviewsGetter) Authorizer {
	return func(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		answer, err := client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: who}, metav1.CreateOptions{})
		if err != nil {
			return authorizationv1.SubjectAccessReviewStatus{}, fmt.Errorf("asking the API server: %w", err)
		}
		return answer.Status, nil
	}
}

// OverrideEvents write an Event about each override, without keeping the answer waiting.
type OverrideEvents struct {
	client   clienteventsv1.EventsGetter
	instance string
	guard    corev1.ObjectReference
	log      logr.Logger
	queue    chan *eventsv1.Event
}

const (
	// maxQueuedOverrides is more than people override while the API server takes no Events.
	maxQueuedOverrides = 100
	// overrideEventTime is how long writing one is tried, and overrideEventsEnd how long those
	// that wait have when the process ends.
	overrideEventTime = 5 * time.Minute
	overrideEventsEnd = 3 * time.Second
)

// NewOverrideEvents returns those that are written in the name of instance; guard is what Events
// are about that cannot be about an object.
func NewOverrideEvents(client clienteventsv1.EventsGetter, instance string, guard corev1.ObjectReference, log logr.Logger) *OverrideEvents {
	return &OverrideEvents{client, instance, guard, log, make(chan *eventsv1.Event, maxQueuedOverrides)}
}

// Tell has an Event written about o. The log line of the decision says the same.
func (e *OverrideEvents) Tell(o Override) {
	select {
	case e.queue <- e.event(o):
	default:
		e.log.Info("Too many overrides are waiting to be written as Events; this one is only in the log", "kind", o.Kind.Kind, "name", o.Name)
	}
}

// Run writes Events until ctx ends, and then those that still wait.
func (e *OverrideEvents) Run(ctx context.Context) {
	for {
		select {
		case event := <-e.queue:
			e.write(ctx, event)
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), overrideEventsEnd)
			defer cancel()
			for len(e.queue) > 0 {
				e.write(end, <-e.queue)
			}
			return
		}
	}
}

// write tries until the Event is written, or it is known that it cannot be. When ctx ends it
// tries once more.
func (e *OverrideEvents) write(ctx context.Context, event *eventsv1.Event) {
	var last error
	try := func(ctx context.Context) (bool, error) {
		last = events.Write(ctx, e.client, event)
		return last == nil || apierrors.IsForbidden(last) || apierrors.IsInvalid(last), nil
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, overrideEventTime, true, try)
	if err != nil && ctx.Err() != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), overrideEventsEnd)
		defer cancel()
		_, _ = try(end)
	}
	if last != nil {
		e.log.Error(last, "Could not write the Event about an override", "note", event.Note)
	}
}

// overriddenReason is that of an Event about an override.
const overriddenReason = "Overridden"

// event is about the object, which the change may be about to create. Where that has a
// namespace it is about the guard instead: the guard may write Events in one namespace only.
func (e *OverrideEvents) event(o Override) *eventsv1.Event {
	regarding, about := corev1.ObjectReference{APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Name: o.Name, UID: o.UID}, "this change"
	if o.Namespace != "" {
		regarding, about = e.guard, fmt.Sprintf("a change of %s %s/%s", o.Kind.Kind, o.Namespace, o.Name)
	}
	refusal, _, _ := strings.Cut(o.Refusal, "\n")
	author := events.Author{Part: "override", Instance: e.instance, Action: "Admitting"}
	return author.Event(regarding, overriddenReason, fmt.Sprintf("%s overrode the refusal of %s (%s). It said: %s", o.User, about, o.Reason, refusal), true)
}
