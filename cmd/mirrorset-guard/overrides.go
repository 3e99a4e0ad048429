package main

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
	"k8s.io/client-go/kubernetes"
	clientauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// overrides ask who may override a refusal, and tell of each that was overridden.
type overrides struct {
	access clientauthorizationv1.SubjectAccessReviewsGetter
	events *overrideEvents
}

// newOverrides returns those of the cluster, in the name of instance.
func newOverrides(config *rest.Config, instance string, log logr.Logger) (*overrides, error) {
	// An answer to a person must not wait for the client's own limit of requests.
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for overrides: %w", err)
	}
	return &overrides{kube.AuthorizationV1(), newOverrideEvents(kube.EventsV1(), instance, log)}, nil
}

// Authorize implements webhook.Authorizer by a SubjectAccessReview.
func (o *overrides) Authorize(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	answer, err := o.access.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: who}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, fmt.Errorf("asking the API server: %w", err)
	}
	return answer.Status, nil
}

// overrideEvents write an Event about each override, without keeping the answer waiting.
type overrideEvents struct {
	client   clienteventsv1.EventsGetter
	instance string
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

func newOverrideEvents(client clienteventsv1.EventsGetter, instance string, log logr.Logger) *overrideEvents {
	return &overrideEvents{client, instance, log, make(chan *eventsv1.Event, maxQueuedOverrides)}
}

// tell has an Event written about o. The log line of the decision says the same.
func (e *overrideEvents) tell(o webhook.Override) {
	select {
	case e.queue <- overrideEvent(o, e.instance):
	default:
		e.log.Info("Too many overrides wait to be told in Events; this one is only in the log", "kind", o.Kind.Kind, "name", o.Name)
	}
}

// run writes Events until ctx ends, and then those that still wait.
func (e *overrideEvents) run(ctx context.Context) {
	for {
		select {
		case event := <-e.queue:
			e.write(ctx, event)
		case <-ctx.Done():
			e.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

func (e *overrideEvents) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, overrideEventsEnd)
	defer cancel()
	for {
		select {
		case event := <-e.queue:
			e.write(ctx, event)
		default:
			return
		}
	}
}

// write tries until the Event is written, or it is known that it cannot be. When ctx ends it
// tries once more.
func (e *overrideEvents) write(ctx context.Context, event *eventsv1.Event) {
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

// overrideEvent is about the object, which the change may be about to create. Where that has a
// namespace it is about the guard instead: the guard may write Events in one namespace only.
func overrideEvent(o webhook.Override, instance string) *eventsv1.Event {
	e := events.New("override", instance)
	e.Action, e.Reason, e.Type = "Admitting", overriddenReason, corev1.EventTypeWarning
	e.Regarding = corev1.ObjectReference{APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Name: o.Name, UID: o.UID}
	about := "this change"
	if o.Namespace != "" {
		e.Regarding, about = theGuard, fmt.Sprintf("a change of %s %s/%s", o.Kind.Kind, o.Namespace, o.Name)
	}
	refusal, _, _ := strings.Cut(o.Refusal, "\n")
	e.Note = events.CutNote(fmt.Sprintf("%s overrode the refusal of %s (%s). It said: %s", o.User, about, o.Reason, text.Line(refusal)))
	return e
}
