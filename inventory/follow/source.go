package follow

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// A Source follows one resource. It never holds more whole objects than one page of a list:
// each is trimmed as soon as it is decoded, and only the rest goes to the Sink. Its fields
// must not be changed once it runs.
type Source struct {
	// Name is what people call the resource: "pods", "deployments.apps".
	Name   string
	Client Resource
	// Object is the name of the one object that is wanted, "" for all. It is asked for by
	// that name, which a role can grant.
	Object string
	// Labels is a selector that narrows the resource down to the wanted objects.
	Labels string
	// PageSize is how many objects are listed at a time. Zero means DefaultPageSize.
	PageSize int64
	// IsAnswer tells errors that are answers, such as 404 for an API that not every cluster
	// has, from those that mean there was no answer. Nil means that none is an answer. See
	// NotServedOrForbidden.
	IsAnswer func(error) bool
	// Retry is how long to wait after a failure; nil means RetryPromptly. See Hurry.
	Retry *wait.Backoff
	// Trim returns the part of an object to keep; nil keeps it whole.
	Trim func(runtime.Object) any
	Sink Sink
	// ForbiddenAfter is how long a source that has never been read, or Forgets, has to be refused,
	// without another answer in between, to count as one that may not be read. Zero means
	// DefaultForbiddenAfter.
	ForbiddenAfter time.Duration
	// Forgets has a refusal that lasts count also where the source was readable: for objects with which more is verified or
	// proved, not less.
	Forgets bool
	// OnSync is called once, when the source has synced. OnServedChange is called
	// afterwards, when the resource begins or ceases to be served, with the new
	// Status.Lacking. Either may be nil. The Sink is called first.
	OnSync         func()
	OnServedChange func(lacking error)

	health  health
	retries retries
	// streamFailed is set between a streamed list that failed and the list instead of it. Only the
	// Reflector's goroutine uses it.
	streamFailed bool
}

// StaleAfter is how long a source may be out of reach before it is stale. It spans the restart of an API server behind a load balancer,
// and several attempts to reach it (RetryPromptly).
const StaleAfter = 2 * time.Minute

// DefaultForbiddenAfter is longer than an API server that has just started takes to
// read its own roles, which it does within a few seconds, and refuses until then.
const DefaultForbiddenAfter = 15 * time.Second

// RetryPromptly goes up to 15 s. client-go's own backoff goes up to a minute, for which the
// inventory would stay out of date after the API server has come back; that is made for
// clusters with thousands of clients of a kind, and there are two replicas of the guard.
var RetryPromptly = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}

// RetryNowAndThen is for resources that are not served; each attempt takes two requests, a
// watch and a list. It is prompt at first: a momentary refusal when the guard starts should
// not delay it.
var RetryNowAndThen = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}

// A Sink takes the trimmed objects of a Source. Its methods are called one at a time.
type Sink interface {
	Put(*Object)
	Remove(namespace, name string)
	// Replace passes the complete set of objects. There are none if something is lacking, and it
	// may then be called repeatedly.
	Replace(all []*Object, lacking error)
}

// An Object is a trimmed object, to be passed to a Sink. To a Reflector it is itself an
// object. The 100,000 of a large cluster are all in memory at once before the first
// Replace, so it has no ObjectMeta of its own, which is five times its size.
type Object struct {
	Namespace, Name string
	// Value is what Source.Trim returned.
	Value any

	resourceVersion string
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (o *Object) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, ResourceVersion: o.resourceVersion}
}

// GetObjectKind implements runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	c := *o
	return &c
}

// Run keeps the Sink up to date until ctx ends. log gets client-go's messages. Run is
// called once.
func (s *Source) Run(ctx context.Context, log logr.Logger) {
	log = quiet(log, s.isNoFault)
	lw := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	r := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lw, s.Client),
		nil, // any type: lists are trimmed already, events are not
		store{s},
		cache.ReflectorOptions{Name: s.Name, TypeDescription: s.Name, Logger: &log, Backoff: &soon},
	)
	r.RunWithContext(klog.NewContext(ctx, log))
}

// selects narrows a list or a watch down to the wanted objects.
func (s *Source) selects(options *metav1.ListOptions) {
	options.LabelSelector = s.Labels
	if s.Object != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.Object).String()
	}
}

// wants reports whether an object of that name is followed, whatever a server makes of field
// selectors.
func (s *Source) wants(name string) bool { return s.Object == "" || s.Object == name }

// fail notes err and returns it.
func (s *Source) fail(err error) error {
	switch {
	case s.IsAnswer == nil || !s.IsAnswer(err):
		s.health.failed(err)
	case apierrors.IsForbidden(err) && !s.health.forbidden(err, cmp.Or(s.ForbiddenAfter, DefaultForbiddenAfter), s.Forgets):
	default:
		s.Sink.Replace(nil, err)
		s.synced(err)
	}
	return err
}

func (s *Source) delays() wait.Backoff { return *cmp.Or(s.Retry, &RetryPromptly) }

// synced says that the Sink has all objects, or why there are none.
func (s *Source) synced(lacking error) {
	first, changed := s.health.sync(lacking)
	if first && s.OnSync != nil {
		s.OnSync()
	}
	if !first && changed && s.OnServedChange != nil {
		s.OnServedChange(lacking)
	}
}

// isNoFault reports whether err is an answer: that a resource which could never be read is
// not served, or may not be read.
func (s *Source) isNoFault(err error) bool {
	return s.IsAnswer != nil && s.IsAnswer(err) && (!apierrors.IsForbidden(err) || !s.Status().IsReadable())
}

// NotServedOrForbidden is a Source.IsAnswer for APIs that not every cluster has. An API
// server that has just started, or whose aggregated API is down, answers 503, not 404.
func NotServedOrForbidden(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
