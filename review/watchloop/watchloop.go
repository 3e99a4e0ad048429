// Package watchloop looks again and again, and passes on what has changed: as log lines, and as
// Kubernetes Events about mirror objects and others. However much happens, there are few of them.
//
//	watchloop.NewLoop(time.Minute, "Could not look", log).Run(ctx, round)
//
//	outlet := watchloop.Outlet{Reporter: watchloop.Events(client, author, otherwise), Budget: watchloop.NewBudget(), Log: log}
//	err := outlet.Pass(ctx, news)
package watchloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	clienteventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Report is one piece of news about one object.
type Report struct {
	// Object is the mirror object; nil for what cannot be put down to one. About says what it is about then, "" for
	// the mirror configuration.
	Object mirrors.Object
	About  string
	// Reason is that of the Event, and Warning whether it is one.
	Reason  string
	Warning bool
	// Message is the message of the log line, which is always the same for a Reason.
	Message string
	// Note tells it to people. An Event has as much of it, in one line, as the API server takes.
	Note string
	// Images is how many images it is about, 0 where it is about none.
	Images int
}

// Name is that of the object, for people.
func (r Report) Name() string {
	if r.Object == nil {
		return cmp.Or(r.About, "the mirror configuration")
	}
	return mirrors.NameOf(r.Object)
}

func (r Report) log(log logr.Logger) {
	values := []any{"object", r.Name()}
	if r.Images > 0 {
		values = append(values, "images", r.Images)
	}
	log.Info(r.Message, append(values, "note", events.Note(r.Note))...)
}

// A Reporter passes a report on.
type Reporter func(context.Context, Report) error

// Events returns a Reporter that writes Events. A Report without an object has one about otherwise;
// where that is nil, it has none. It needs the right of events.Rule.
func Events(client clienteventsv1.EventsGetter, author events.Author, otherwise *corev1.ObjectReference) Reporter {
	return func(ctx context.Context, r Report) error {
		regarding := otherwise
		if r.Object != nil {
			regarding = referenceTo(r.Object)
		}
		if regarding == nil {
			return nil
		}
		return events.Write(ctx, client, author.Event(*regarding, r.Reason, r.Note, r.Warning))
	}
}

func referenceTo(o mirrors.Object) *corev1.ObjectReference {
	bare := mirrors.BareOf(o)
	return &corev1.ObjectReference{APIVersion: bare.APIVersion, Kind: bare.Kind, Name: o.GetName(), UID: o.GetUID()}
}

// Key tells an object from a later one of the same name; "" is no object.
func Key(o mirrors.Object) string {
	if o == nil {
		return ""
	}
	return mirrors.NameOf(o) + " " + string(o.GetUID())
}

// News is a Report that has not been passed on.
type News struct {
	Report
	// Done notes that it has been.
	Done func()
}

// MaxAtOnce bounds the reports of one call of Pass. The next call reports the rest, if it is still
// true.
const MaxAtOnce = 20

// An Outlet is the way that news take: a Reporter, within a Budget, and a log.
type Outlet struct {
	// Reporter receives reports, after which there is a line in the log. If it is nil, there is only
	// the line.
	Reporter Reporter
	// Budget bounds the reports about each object. If it is nil, nothing does.
	Budget *Budget
	// Log is the log. The zero value discards lines.
	Log logr.Logger
}

// Pass passes news on, within their budgets, and ends with ctx: another process may be the leader by
// then. News not passed on is not Done.
func (o Outlet) Pass(ctx context.Context, news iter.Seq[News]) error {
	var errs []error
	passed := 0
	for n := range news {
		if err := ctx.Err(); err != nil {
			return err
		}
		if passed == MaxAtOnce {
			break
		}
		if !o.Budget.Allow(n.Object) {
			continue
		}
		passed++
		if err := o.report(ctx, n.Report); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", n.Reason, n.Name(), err))
			continue
		}
		n.Done()
		n.log(o.Log)
	}
	return errors.Join(errs...)
}

func (o Outlet) report(ctx context.Context, r Report) error {
	if o.Reporter == nil {
		return nil
	}
	return o.Reporter(ctx, r)
}
