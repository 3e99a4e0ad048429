package trust

import (
	"context"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// An object is a single object that is followed by its name, so that a role can grant
// exactly that. It is the Sink of its own Source.
type object struct {
	*follow.Source
	namespace string // "" for cluster-scoped objects
	changed   func() // called after each change of what read or Status returns

	mu    sync.Mutex
	value runtime.Object // nil if there is none
	// denied is set if the object may not be read, and never could be.
	denied bool
}

// config returns the object "cluster" of a resource of config.openshift.io; messages call
// it by its kind.
func (f *Follower) config(version, plural, kind string) *object {
	r := schema.GroupVersionResource{Group: configv1.GroupName, Version: version, Resource: plural}
	return f.object("", &follow.Source{Name: kind + "/cluster", Object: "cluster", Client: follow.Custom(f.dyn, r)})
}

func (f *Follower) configMap(namespace, name string) *object {
	client := follow.Builtin(f.kube.CoreV1().ConfigMaps(namespace), f.kube)
	return f.object(namespace, &follow.Source{Name: "ConfigMap " + namespace + "/" + name, Object: name, Client: client})
}

func (f *Follower) object(namespace string, s *follow.Source) *object {
	o := &object{Source: s, namespace: namespace, changed: f.touch}
	s.Sink = o
	s.PageSize = 1
	s.IsAnswer = follow.NotServedOrForbidden
	s.StaleAfter, s.ForbiddenAfter = f.options.StaleAfter, f.options.ForbiddenAfter
	s.OnSync = f.touch
	return o
}

// read returns the object, nil if there is none, and whether that is because it may not be
// read.
func (o *object) read() (value runtime.Object, denied bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.value, o.denied
}

func (o *object) set(value runtime.Object, denied bool) {
	o.mu.Lock()
	o.value, o.denied = value, denied
	o.mu.Unlock()
	o.changed()
}

// Put implements follow.Sink.
func (o *object) Put(t *follow.Object) { o.set(t.Value.(runtime.Object), false) }

// Remove implements follow.Sink.
func (o *object) Remove(string, string) { o.set(nil, false) }

// Replace implements follow.Sink.
func (o *object) Replace(all []*follow.Object) {
	if len(all) == 0 {
		o.set(nil, false)
		return
	}
	o.Put(all[0])
}

// None implements follow.Sink.
func (o *object) None(reason error) { o.set(nil, apierrors.IsForbidden(reason)) }

// typed returns the value of a custom resource, nil if there is none.
func typed[T any](o *object) *T {
	value, _ := o.read()
	if _, ok := value.(*unstructured.Unstructured); !ok {
		return nil
	}
	return follow.Typed[T](value)
}

// A running object is followed for as long as something names it.
type running struct {
	*object
	cancel context.CancelFunc
	done   chan struct{}
}

func (f *Follower) start(ctx context.Context, o *object) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{object: o, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		o.Run(ctx, f.options.Logger)
	}()
	return r
}

func (r *running) stop() {
	r.cancel()
	<-r.done
}
