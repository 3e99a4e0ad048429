package trust

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
)

// A resource is one collection on an API server.
type resource interface {
	List(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	// IsWatchListSemanticsUnSupported is what client-go asks before it streams lists.
	IsWatchListSemanticsUnSupported() bool
}

// An object is one object that is followed by its name, so that a role can grant
// exactly that.
type object struct {
	client          resource
	kind            string // "ConfigMap", "image.config.openshift.io"
	namespace, name string
	changed         func() // called after each change of what get or status return
	forbiddenAfter  time.Duration

	mu     sync.Mutex
	status status
}

// A status is what is known of an object.
type status struct {
	value  runtime.Object // nil if there is none
	synced bool           // whether the API server has answered once
	denied bool           // whether the answer is that it may not be read, and it never could be
	heard  time.Time
	// refused is when it was refused first since the last other answer.
	refused time.Time
	err     error // what stands between the API server and fresher knowledge
}

// retry goes up to 15 s: a rotated CA should not wait for a minute after the API
// server has come back. It is also how often an API is asked for that is not there.
var retry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}

// String names the object for people.
func (o *object) String() string {
	if o.namespace == "" {
		return o.kind + "/" + o.name
	}
	return fmt.Sprintf("%s %s/%s", o.kind, o.namespace, o.name)
}

func (o *object) read() status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status
}

// follow keeps the status up to date until ctx ends.
func (o *object) follow(ctx context.Context, log logr.Logger) {
	log = cluster.Quiet(log, o.isAnswer)
	lw := &cache.ListWatch{ListWithContextFunc: o.list, WatchFuncWithContext: o.watch}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, o.client), nil, store{o},
		cache.ReflectorOptions{Name: o.String(), TypeDescription: o.String(), Logger: &log, Backoff: &retry})
	r.RunWithContext(klog.NewContext(ctx, log))
}

func (o *object) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	o.choose(&options)
	list, err := o.client.List(ctx, options)
	return list, o.learn(err)
}

func (o *object) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	o.choose(&options)
	w, err := o.client.Watch(ctx, options)
	if err := o.learn(err); err != nil {
		return nil, err
	}
	return w, nil
}

func (o *object) choose(options *metav1.ListOptions) {
	options.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.name).String()
}

// learn takes note of an answer and returns err, for the Reflector to back off. That
// there is no such API is an answer too. That it may not be read is one only where it
// never could be, and once that has lasted: an API server that is starting says so
// until it has read its own rules.
func (o *object) learn(err error) error {
	o.update(func(s *status) {
		switch {
		case apierrors.IsNotFound(err):
			*s = status{synced: true, heard: s.heard}
		case apierrors.IsForbidden(err):
			s.refuse(err, o.forbiddenAfter)
		default:
			s.err, s.refused = err, time.Time{}
		}
	})
	return err
}

// refuse takes note that the API server does not let the object be read. What was read
// before stays, and grows stale.
func (s *status) refuse(err error, after time.Duration) {
	if s.refused.IsZero() {
		s.refused = time.Now()
	}
	if !s.isReadable() && time.Since(s.refused) >= after {
		s.synced, s.denied, s.err = true, true, nil
		return
	}
	s.err = err
}

// isAnswer reports whether err is no fault: that what never could be read is not there,
// or may not be read.
func (o *object) isAnswer(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !o.read().isReadable()
}

func (s status) isReadable() bool { return s.synced && !s.denied }

func (o *object) set(value runtime.Object) {
	o.update(func(s *status) { *s = status{value: value, synced: true, heard: s.heard} })
}

func (o *object) update(change func(*status)) {
	o.mu.Lock()
	change(&o.status)
	if o.status.err == nil {
		o.status.heard = time.Now()
	}
	o.mu.Unlock()
	o.changed()
}

// A store is the side of an object that its Reflector writes to.
type store struct{ *object }

// Add implements cache.ReflectorStore.
func (s store) Add(o any) error {
	value, ok := o.(runtime.Object)
	if !ok {
		return fmt.Errorf("%s has the type %T", s.object, o)
	}
	m, err := meta.Accessor(value)
	if err != nil {
		return fmt.Errorf("%s: %w", s.object, err)
	}
	if m.GetName() == s.name { // whatever a server makes of field selectors
		s.set(value)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s store) Update(o any) error { return s.Add(o) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("%s: %w", s.object, err)
	}
	if m.GetName() == s.name {
		s.set(nil)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s store) Replace(objects []any, _ string) error {
	for _, o := range objects {
		if m, err := meta.Accessor(o); err == nil && m.GetName() == s.name {
			return s.Add(o)
		}
	}
	s.set(nil)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore: there is nothing new, and the API
// server is there.
func (s store) Bookmark(string) error {
	s.update(func(s *status) { s.err = nil })
	return nil
}
