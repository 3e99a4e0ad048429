package trust

import (
	"context"
	"reflect"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// An object is a single object that is followed by its name, so that a role can grant
// exactly that.
type object struct {
	*follow.Source
	follow.Single
	namespace string // "" for cluster-scoped objects
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
	o := &object{Source: s, namespace: namespace}
	var last any
	o.Changed = func() {
		value, denied := o.Read()
		if denied || reflect.DeepEqual(value, last) { // that it may not be read, and that it may again, is no change of it
			f.touch()
			return
		}
		last = value
		f.touchedBy(s.Name)
	}
	s.Sink = follow.One(o.Set)
	s.PageSize = 1
	s.IsAnswer = follow.NotServedOrForbidden
	s.ForbiddenAfter, s.Forgets = f.options.ForbiddenAfter, true
	s.OnSync = f.touch
	return o
}

// typed returns the value of a custom resource, nil if there is none.
func typed[T any](o *object) *T {
	value, _ := o.Read()
	custom, ok := value.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	return follow.Typed[T](custom)
}

// A running object is followed until stop is called.
type running struct {
	*object
	stop func()
}

func (f *Follower) start(ctx context.Context, o *object) *running {
	ctx, cancel := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() { o.Run(ctx, f.options.Logger) })
	return &running{o, func() {
		cancel()
		run.Wait()
	}}
}
