package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// A source is one resource that an Inventory follows. It never holds more objects
// than one page of a list: each is trimmed as soon as it is decoded, and only
// what is left of it goes to the sink.
type source struct {
	// name is the resource as a person types it: "pods", "deployments.apps".
	name string
	// kind is that of the objects, as Holder.Kind has it; "" for those that name no
	// images, or none that anything pulls.
	kind string
	// templates is set if pod templates are read, in objects of kind.
	templates bool
	client    resource
	// object is the name of the one object that is wanted, "" for all.
	object string
	// selects narrows the resource down to what is wanted of it.
	selects metav1.ListOptions
	// page is how many objects are listed at a time.
	page int64
	// bears tells errors that are an answer, such as 404 for an API that not every
	// cluster has, from those that are the lack of one.
	bears func(error) bool
	// retry is how long to wait after a failure; nil for retryPromptly.
	retry *wait.Backoff
	trim  func(runtime.Object) any
	sink  sink
	health
}

// isSecret reports whether s is the source of the global pull secret, whose sink
// tells by itself when there is none.
func (s *source) isSecret() bool {
	_, ok := s.sink.(*secretSink)
	return ok
}

// A resource is one collection on an API server.
type resource interface {
	List(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// A sink takes what is left of the objects of a source. Its methods are called
// one at a time.
type sink interface {
	put(trimmed *trimmed)
	remove(namespace, name string)
	replace([]*trimmed)
	// none says that there are no such objects, and why.
	none(reason error)
}

// trimmed is what is left of an object on the way to a sink. To a Reflector it is
// itself an object. The 100,000 of a large cluster are all there at once before the
// first replace, so that it has no ObjectMeta of its own, five times its size.
type trimmed struct {
	Namespace, Name string
	resourceVersion string
	value           any
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (t *trimmed) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, ResourceVersion: t.resourceVersion}
}

// GetObjectKind implements runtime.Object.
func (t *trimmed) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (t *trimmed) DeepCopyObject() runtime.Object {
	c := *t
	return &c
}

const (
	// pageSize is how many built-in objects are listed at a time: 500 pods of
	// 10 kB make 5 MB to decode, 200 pages list 100,000.
	pageSize = 500
	// pageSizeCustom is for custom resources, which are JSON and of any size.
	pageSizeCustom = 100
	// pageSizeLarge is for resources whose objects may come near etcd's limit of
	// 1.5 MiB each.
	pageSizeLarge = 10
)

// retryPromptly goes up to 15 s. client-go's own goes up to a minute, during
// which the inventory would be out of date after the API server has come back;
// it is made for clusters with thousands of clients of a kind, and there are two
// replicas of the guard.
var retryPromptly = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}

// retryNowAndThen is for what is not there, which is asked for by two requests
// each time: a watch, then a list. At first it is prompt: what is refused for a
// moment when the guard starts should not keep it waiting.
var retryNowAndThen = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}

// follow keeps the sink up to date until ctx ends.
func (s *source) follow(ctx context.Context, log logr.Logger) {
	log = Quiet(log, s.isAnswer)
	retry := cmp.Or(s.retry, &retryPromptly)
	lw := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	r := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lw, s.client),
		nil, // any type: lists are trimmed already, events are not
		store{s},
		cache.ReflectorOptions{Name: s.name, TypeDescription: s.name, Logger: &log, Backoff: retry},
	)
	r.RunWithContext(klog.NewContext(ctx, log))
}

// list reads all objects page by page. The Reflector's own way, a list at
// resource version 0, is answered by the watch cache of the API server in one
// piece however large: more than 1 GB for 100,000 pods. Where the server streams
// lists, list is not called.
func (s *source) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	all := &metainternalversion.List{}
	options := s.selects
	options.Limit = s.page
	for {
		page, err := s.listPage(ctx, options)
		if err != nil {
			return nil, s.fail(err)
		}
		if err := s.appendPage(all, page); err != nil {
			return nil, s.fail(err)
		}
		if all.Continue == "" {
			s.succeed()
			return all, nil
		}
		options.Continue, all.Continue = all.Continue, ""
	}
}

// listTimeout is how long a page may take: longer than an API server works on it
// (--request-timeout, 1 min), so that only a dead connection is cut.
const listTimeout = 90 * time.Second

func (s *source) listPage(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return s.client.List(ctx, options)
}

func (s *source) appendPage(all *metainternalversion.List, page runtime.Object) error {
	m, err := meta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("listing %s: %w", s.name, err)
	}
	all.ResourceVersion, all.Continue = m.GetResourceVersion(), m.GetContinue()
	return meta.EachListItem(page, func(o runtime.Object) error {
		t, err := s.trimObject(o)
		if err == nil {
			all.Items = append(all.Items, t)
		}
		return err
	})
}

// fail notes err and returns it, so that the Reflector backs off.
func (s *source) fail(err error) error {
	switch {
	case s.bears == nil || !s.bears(err):
		s.failed(err)
	case apierrors.IsForbidden(err) && !s.forbidden(err):
	default:
		s.sink.none(err)
		s.lacking(err)
	}
	return err
}

// isAnswer reports whether err is no fault: that what never could be read is not
// there, or may not be read.
func (s *source) isAnswer(err error) bool {
	return s.bears != nil && s.bears(err) && (!apierrors.IsForbidden(err) || !s.isReadable())
}

func (s *source) trimObject(o runtime.Object) (*trimmed, error) {
	if t, ok := o.(*trimmed); ok {
		return t, nil
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, fmt.Errorf("an object of %s: %w", s.name, err)
	}
	return &trimmed{
		Namespace:       m.GetNamespace(),
		Name:            m.GetName(),
		resourceVersion: m.GetResourceVersion(),
		value:           s.trim(o),
	}, nil
}

// A store is the side of a source that its Reflector writes to.
type store struct{ *source }

// Add implements cache.ReflectorStore.
func (s store) Add(o any) error {
	t, err := s.trimAny(o)
	if err != nil {
		return err
	}
	s.sink.put(t)
	s.succeed()
	return nil
}

// Update implements cache.ReflectorStore.
func (s store) Update(o any) error { return s.Add(o) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("an object of %s: %w", s.name, err)
	}
	s.sink.remove(m.GetNamespace(), m.GetName())
	s.succeed()
	return nil
}

// Replace implements cache.ReflectorStore. The source has synced with it.
func (s store) Replace(objects []any, _ string) error {
	all := make([]*trimmed, len(objects))
	for i, o := range objects {
		t, err := s.trimAny(o)
		if err != nil {
			return err
		}
		all[i] = t
	}
	s.sink.replace(all)
	s.arrived()
	return nil
}

// Resync implements cache.ReflectorStore.
func (s store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore: the server has nothing to
// tell, and is there.
func (s store) Bookmark(string) error {
	s.succeed()
	return nil
}

// Transformer implements cache.TransformingStore, so that a streamed list is
// trimmed as it comes in.
func (s store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return s.trimAny(o) }
}

func (s store) trimAny(o any) (*trimmed, error) {
	object, ok := o.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("an object of %s has the type %T", s.name, o)
	}
	return s.trimObject(object)
}

// notServedOrForbidden is for APIs that not every cluster has. An API server that has just
// started, or whose aggregated API is down, answers 503, not 404.
func notServedOrForbidden(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
