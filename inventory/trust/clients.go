package trust

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"
)

// clients reach an API server.
type clients struct {
	kube kubernetes.Interface
	dyn  dynamic.Interface
}

// config returns the object "cluster" of a resource of config.openshift.io.
func (f *Follower) config(version, plural, kind string) *object {
	r := schema.GroupVersionResource{Group: configv1.GroupName, Version: version, Resource: plural}
	return &object{
		client:  customResource{f.clients.dyn.Resource(r), f.clients.dyn},
		kind:    kind,
		name:    "cluster",
		changed: f.touch,

		forbiddenAfter: f.options.ForbiddenAfter,
	}
}

func (f *Follower) configMap(namespace, name string) *object {
	return &object{
		client:    configMapResource{f.clients.kube, namespace},
		kind:      "ConfigMap",
		namespace: namespace,
		name:      name,
		changed:   f.touch,

		forbiddenAfter: f.options.ForbiddenAfter,
	}
}

type customResource struct {
	dynamic.NamespaceableResourceInterface
	dyn dynamic.Interface
}

// List implements resource.
func (r customResource) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.NamespaceableResourceInterface.List(ctx, o)
}

// IsWatchListSemanticsUnSupported passes on what the client says.
func (r customResource) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.dyn)
}

type configMapResource struct {
	kube      kubernetes.Interface
	namespace string
}

// List implements resource.
func (r configMapResource) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.kube.CoreV1().ConfigMaps(r.namespace).List(ctx, o)
}

// Watch implements resource.
func (r configMapResource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return r.kube.CoreV1().ConfigMaps(r.namespace).Watch(ctx, o)
}

// IsWatchListSemanticsUnSupported passes on what the client says.
func (r configMapResource) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.kube)
}
