package rollouts

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
)

// The reasons of reports: those of the Events on mirror sets.
const (
	MirrorRolloutBegan   = "MirrorRolloutBegan"
	MirrorRolloutStalled = "MirrorRolloutStalled"
	MirrorRolloutResumed = "MirrorRolloutResumed"
	MirrorRolloutEnded   = "MirrorRolloutEnded"
)

// A Report says how the rollout of one object does.
type Report struct {
	// Object is the mirror object that makes the entries on their way; nil if there is none, as
	// for an entry that was deleted, or for registry lists.
	Object mirrors.Object
	Reason string
	// Note says it in a line, for people.
	Note string
}

// A Reporter passes reports on. After an error the report is made again.
type Reporter func(context.Context, Report) error

func (r Report) name() string {
	if r.Object == nil {
		return "the mirror configuration"
	}
	return mirrors.NameOf(r.Object)
}

// message is the message of the log line.
func (r Report) message() string {
	return map[string]string{
		MirrorRolloutBegan:   "Rollout of a mirror change began",
		MirrorRolloutStalled: "Rollout of a mirror change stands still",
		MirrorRolloutResumed: "Rollout of a mirror change moves again",
		MirrorRolloutEnded:   "Rollout of a mirror change ended",
	}[r.Reason]
}

// Events returns a Reporter that writes Kubernetes Events in the name of instance, usually a
// pod. A Report without an object has no Event. It needs the right of events.Rule.
func Events(client clienteventsv1.EventsGetter, instance string) Reporter {
	return func(ctx context.Context, r Report) error {
		if r.Object == nil {
			return nil
		}
		return events.Write(ctx, client, event(r, instance))
	}
}

func event(r Report, instance string) *eventsv1.Event {
	e := events.New("rollouts", instance)
	e.Action, e.Reason, e.Regarding, e.Type = "Following", r.Reason, standing.ReferenceTo(r.Object), corev1.EventTypeNormal
	e.Note = events.CutNote(text.Line(r.Note))
	if r.Reason == MirrorRolloutStalled {
		e.Type = corev1.EventTypeWarning
	}
	return e
}
