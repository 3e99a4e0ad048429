package follow

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"
)

// A Resource is one collection on an API server.
type Resource interface {
	List(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Custom returns a resource without a Go type of its own. Its objects are
// *unstructured.Unstructured; Typed decodes them.
func Custom(dyn dynamic.Interface, r schema.GroupVersionResource) Resource {
	return custom{dyn.Resource(r), origin{dyn}}
}

type custom struct {
	dynamic.NamespaceableResourceInterface
	origin
}

// An origin is the client that a resource comes from.
type origin struct{ client any }

// IsWatchListSemanticsUnSupported passes on what the client says: a fake one does not
// stream lists.
func (o origin) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(o.client)
}

func (r custom) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.NamespaceableResourceInterface.List(ctx, o)
}

// Typed decodes an object of a Custom resource. The API server has checked its types.
// Should they differ from ours all the same, a partly decoded object is better than none.
func Typed[T any](o runtime.Object) *T {
	object := new(T)
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, object)
	return object
}

// A client is one of the interfaces of client-go for a built-in resource, whose List returns
// a type of its own.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Builtin returns the resource that a client, which kube has made, leads to.
func Builtin[L runtime.Object](c client[L], kube kubernetes.Interface) Resource {
	return builtin[L]{c, origin{kube}}
}

type builtin[L runtime.Object] struct {
	client[L]
	origin
}

func (r builtin[L]) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.client.List(ctx, o)
}

// FirstServed returns a resource that is read in the version now, or in the version before
// if the cluster does not serve that.
func FirstServed(now, before Resource) Resource { return firstServed{now, before, origin{now}} }

type firstServed struct {
	now, before Resource
	origin
}

func (r firstServed) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := r.now.List(ctx, o)
	if apierrors.IsNotFound(err) {
		return r.before.List(ctx, o)
	}
	return list, err
}

func (r firstServed) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := r.now.Watch(ctx, o)
	if apierrors.IsNotFound(err) {
		return r.before.Watch(ctx, o)
	}
	return w, err
}

// IfServed returns r with an error of its own where it is not served: an API server refuses that to users without the right to
// read it, too. served is asked after a refusal.
func IfServed(r Resource, served func(context.Context) (bool, error)) Resource {
	return ifServed{r, served, origin{r}}
}

type ifServed struct {
	Resource
	served func(context.Context) (bool, error)
	origin
}

func (r ifServed) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := r.Resource.List(ctx, o)
	return list, r.explain(ctx, err)
}

func (r ifServed) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := r.Resource.Watch(ctx, o)
	return w, r.explain(ctx, err)
}

func (r ifServed) explain(ctx context.Context, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if served, failed := r.served(ctx); failed == nil && !served {
		return apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return err
}
