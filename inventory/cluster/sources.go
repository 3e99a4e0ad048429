package cluster

import (
	"context"

	imagev1 "github.com/openshift/api/image/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// workloads returns the sources of everything built into Kubernetes that a pod
// may come from, and of pods.
func workloads(kube kubernetes.Interface, index *images.Index) []*source {
	holders := func(name, kind string, r resource) *source {
		return &source{
			name:      name,
			kind:      kind,
			templates: images.ReadsTemplates(schema.GroupKind{Group: schema.ParseGroupResource(name).Group, Kind: kind}),
			client:    r,
			page:      pageSize,
			trim: func(o runtime.Object) any {
				h, _ := images.Extract(o)
				return images.Pack(h.References)
			},
			sink: holderSink{index, kind},
		}
	}
	all := metav1.NamespaceAll
	return []*source{
		holders("pods", "Pod", builtin(kube.CoreV1().Pods(all), kube)),
		holders("replicationcontrollers", "ReplicationController", builtin(kube.CoreV1().ReplicationControllers(all), kube)),
		holders("deployments.apps", "Deployment", builtin(kube.AppsV1().Deployments(all), kube)),
		holders("replicasets.apps", "ReplicaSet", builtin(kube.AppsV1().ReplicaSets(all), kube)),
		holders("statefulsets.apps", "StatefulSet", builtin(kube.AppsV1().StatefulSets(all), kube)),
		holders("daemonsets.apps", "DaemonSet", builtin(kube.AppsV1().DaemonSets(all), kube)),
		holders("jobs.batch", "Job", builtin(kube.BatchV1().Jobs(all), kube)),
		holders("cronjobs.batch", "CronJob", builtin(kube.BatchV1().CronJobs(all), kube)),
	}
}

// pullSecret returns the source of the global pull secret. It asks for this one
// secret only, which a role can grant by its name. Being refused it is an
// answer: registries are then asked without credentials, and that is said.
func pullSecret(kube kubernetes.Interface, tell func([]byte, error)) *source {
	s := &source{
		name:   "secret " + pullSecretNamespace + "/" + pullSecretName,
		client: builtin(kube.CoreV1().Secrets(pullSecretNamespace), kube),
		page:   1,
		bears:  apierrors.IsForbidden,
		trim:   trimSecret,
		sink:   &secretSink{tell: tell},
	}
	s.only(pullSecretName)
	return s
}

// only narrows s down to the objects of one name.
func (s *source) only(name string) {
	s.object = name
	s.selects.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}

// custom returns the sources of everything else that names images.
func custom(dyn dynamic.Interface, index *images.Index) []*source {
	var sources []*source
	for _, k := range images.CustomKinds() {
		s := optional(k.Resource, dyn)
		if k.FormerVersion != "" {
			s.client = served{s.client, dynamicResource{dyn.Resource(k.Resource.GroupResource().WithVersion(k.FormerVersion)), dyn}}
		}
		if !k.IsHistory() {
			s.kind, s.templates = k.Kind, k.ReadsTemplates()
		}
		s.trim = func(o runtime.Object) any { return images.Pack(k.Extract(o.(*unstructured.Unstructured)).References) }
		s.sink = holderSink{index, k.Kind}
		if k.Large {
			s.page = pageSizeLarge
		}
		if k.Without != "" {
			s.selects.LabelSelector = "!" + k.Without
		}
		sources = append(sources, s)
	}
	return sources
}

// configMaps returns the sources of images.ImageConfigMaps.
func configMaps(kube kubernetes.Interface, index *images.Index) []*source {
	var sources []*source
	for _, key := range images.ImageConfigMaps() {
		s := &source{
			name:   "configmap " + key.String(),
			kind:   images.ConfigMapKind.Kind,
			client: builtin(kube.CoreV1().ConfigMaps(key.Namespace), kube),
			page:   1,
			bears:  notServedOrForbidden,
			retry:  &retryNowAndThen,
			trim: func(o runtime.Object) any {
				return images.Pack(images.ExtractConfigMap(o.(*corev1.ConfigMap)).References)
			},
			sink: objectSink{holderSink{index, images.ConfigMapKind.Kind}, key},
		}
		s.only(key.Name)
		sources = append(sources, s)
	}
	return sources
}

// optional returns the source of a custom resource, without trim and sink. A
// cluster that does not serve the resource has no such objects. Where it may not
// be read, that is said by Notes with each answer, and does not stop the guard:
// its absence would be the greater harm.
func optional(r schema.GroupVersionResource, dyn dynamic.Interface) *source {
	return &source{
		name:   r.GroupResource().String(),
		client: dynamicResource{dyn.Resource(r), dyn},
		page:   pageSizeCustom,
		bears:  notServedOrForbidden,
		retry:  &retryNowAndThen,
	}
}

func nodes(kube kubernetes.Interface, sink sink) *source {
	return &source{
		name:   "nodes",
		client: builtin(kube.CoreV1().Nodes(), kube),
		page:   pageSize,
		bears:  apierrors.IsForbidden,
		retry:  &retryNowAndThen,
		trim:   func(o runtime.Object) any { return objects.TrimNode(o.(*corev1.Node)) },
		sink:   sink,
	}
}

// serviceAccounts returns the source of what pods made from templates get their pull
// secrets from. Where it may not be read, any may have one.
func serviceAccounts(kube kubernetes.Interface, index *images.Index) *source {
	return &source{
		name:   "serviceaccounts",
		client: builtin(kube.CoreV1().ServiceAccounts(metav1.NamespaceAll), kube),
		page:   pageSize,
		bears:  apierrors.IsForbidden,
		retry:  &retryNowAndThen,
		trim:   func(o runtime.Object) any { return images.HasPullSecret(o.(*corev1.ServiceAccount)) },
		sink:   accountSink{index},
	}
}

// accountsKnown says how far a source of serviceAccounts can be trusted.
func accountsKnown(s SourceStatus) images.Accounts {
	if !s.isReadable() || s.Stale {
		return images.StaleAccounts
	}
	return images.AllAccounts
}

func trimStream(o runtime.Object) any {
	var stream imagev1.ImageStream
	// As for decoded, what could be read is more than nothing.
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, &stream)
	return images.StreamOf(&stream)
}

func disruptionBudgets(kube kubernetes.Interface, sink sink) *source {
	return &source{
		name:   "poddisruptionbudgets.policy",
		client: builtin(kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll), kube),
		page:   pageSize,
		bears:  apierrors.IsForbidden,
		retry:  &retryNowAndThen,
		trim:   func(o runtime.Object) any { return objects.TrimDisruptionBudget(o.(*policyv1.PodDisruptionBudget)) },
		sink:   sink,
	}
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

var poolResource = resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigpools")

func pools(dyn dynamic.Interface, sink sink) *source {
	s := optional(poolResource, dyn)
	s.sink = sink
	s.trim = decoded(objects.TrimPool)
	return s
}

// served is a resource in the version that the cluster serves.
type served struct{ now, before resource }

// List implements resource.
func (r served) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := r.now.List(ctx, o)
	if apierrors.IsNotFound(err) {
		return r.before.List(ctx, o)
	}
	return list, err
}

// Watch implements resource.
func (r served) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := r.now.Watch(ctx, o)
	if apierrors.IsNotFound(err) {
		return r.before.Watch(ctx, o)
	}
	return w, err
}

// IsWatchListSemanticsUnSupported passes on what the client says.
func (r served) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.now)
}

type dynamicResource struct {
	dynamic.NamespaceableResourceInterface
	dyn dynamic.Interface
}

// List implements resource.
func (r dynamicResource) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.NamespaceableResourceInterface.List(ctx, o)
}

// IsWatchListSemanticsUnSupported passes on what the client says.
func (r dynamicResource) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.dyn)
}

// A typed resource is one of the interfaces of client-go, whose List returns a
// type of its own.
type typed[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

type builtinResource[L runtime.Object] struct {
	typed[L]
	kube kubernetes.Interface
}

func builtin[L runtime.Object](r typed[L], kube kubernetes.Interface) resource {
	return builtinResource[L]{r, kube}
}

// List implements resource.
func (r builtinResource[L]) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.typed.List(ctx, o)
}

// IsWatchListSemanticsUnSupported passes on what the client says: a fake one
// does not stream lists.
func (r builtinResource[L]) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.kube)
}
