package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A source is one resource that an Inventory follows.
type source struct {
	*follow.Source
	// kind is that of the objects, as policy.Gap.Kind has it; "" where nothing is said about images without them.
	kind string
	// role is that of the objects in a rollout, 0 for none.
	role objects.Role
	// isOptional is set for a resource that not every cluster has.
	isOptional bool
	// templates is set if pod templates are read, in objects of kind.
	templates bool
	// isConfigMap is set for one ConfigMap.
	isConfigMap bool
	// isSecret is set for the global pull secret, whose Sink itself reports when there is
	// none.
	isSecret bool
}

// imageSources returns the sources of the kinds that are known to name images.
func imageSources(kube kubernetes.Interface, dyn dynamic.Interface, index *images.Index) []*source {
	const all = metav1.NamespaceAll
	clients := map[string]follow.Resource{
		workloads.Pods:           follow.Builtin(kube.CoreV1().Pods(all), kube),
		"replicationcontrollers": follow.Builtin(kube.CoreV1().ReplicationControllers(all), kube),
		"deployments.apps":       follow.Builtin(kube.AppsV1().Deployments(all), kube),
		"replicasets.apps":       follow.Builtin(kube.AppsV1().ReplicaSets(all), kube),
		"statefulsets.apps":      follow.Builtin(kube.AppsV1().StatefulSets(all), kube),
		"daemonsets.apps":        follow.Builtin(kube.AppsV1().DaemonSets(all), kube),
		"jobs.batch":             follow.Builtin(kube.BatchV1().Jobs(all), kube),
		"cronjobs.batch":         follow.Builtin(kube.BatchV1().CronJobs(all), kube),
	}
	return convert.Each(images.Known(), func(k images.Kind) *source {
		s := custom(dyn, k.Resource, k.FormerVersion)
		if k.IsBuiltin() {
			s = &source{Source: &follow.Source{Name: s.Name, Client: clients[s.Name]}}
		}
		s.kind, s.templates = k.Kind, k.ReadsTemplates()
		s.Trim = func(o runtime.Object) any { return images.Pack(k.Extract(o).References) }
		s.Sink = holderSink{index, k.Kind}
		if k.Large {
			s.PageSize = pageSizeLarge
		}
		if k.Without != "" {
			s.Labels = "!" + k.Without
		}
		return s
	})
}

// configMaps returns the sources of images.ImageConfigMaps.
func configMaps(kube kubernetes.Interface, index *images.Index) []*source {
	var sources []*source
	for _, key := range images.ImageConfigMaps() {
		s := configMap(kube, key, func(cm *corev1.ConfigMap) any { return images.Pack(images.ExtractConfigMap(cm).References) },
			holderSink{index, images.ConfigMapKind.Kind}.one(key))
		s.kind = images.ConfigMapKind.Kind
		sources = append(sources, s)
	}
	return sources
}

// configMap returns the source of one ConfigMap, which names no images.
func configMap(kube kubernetes.Interface, key types.NamespacedName, trim func(*corev1.ConfigMap) any, sink follow.Sink) *source {
	return &source{
		isConfigMap: true,
		Source: &follow.Source{
			Name:     "configmap " + key.String(),
			Client:   follow.Builtin(kube.CoreV1().ConfigMaps(key.Namespace), kube),
			Object:   key.Name,
			PageSize: 1,
			IsAnswer: follow.NotServedOrForbidden,
			Retry:    &follow.RetryNowAndThen,
			Trim:     func(o runtime.Object) any { return trim(o.(*corev1.ConfigMap)) },
			Sink:     sink,
		},
	}
}

const (
	// pageSizeCustom is for custom resources, which are JSON and of any size.
	pageSizeCustom = 100
	// pageSizeLarge is for resources whose objects may come near etcd's limit of
	// 1.5 MiB each.
	pageSizeLarge = 10
)

// custom returns the source of a custom resource, without Trim and Sink, in the version before where the cluster serves that alone. A
// cluster that does not serve the resource has no such objects. If it may not be read, Notes says so
// with each answer, and the guard works all the same: its absence would do more harm.
func custom(dyn dynamic.Interface, r schema.GroupVersionResource, before string) *source {
	client := follow.Custom(dyn, r)
	if before != "" {
		client = follow.FirstServed(client, follow.Custom(dyn, r.GroupResource().WithVersion(before)))
	}
	return &source{isOptional: true, Source: &follow.Source{
		Name:     r.GroupResource().String(),
		Client:   client,
		PageSize: pageSizeCustom,
		IsAnswer: follow.NotServedOrForbidden,
		Retry:    &follow.RetryNowAndThen,
	}}
}

// readable returns the source of a built-in resource that names no images. If it may not be
// read, Notes says so, as for custom resources.
func readable(name string, r follow.Resource, trim func(runtime.Object) any, sink follow.Sink) *source {
	return &source{Source: &follow.Source{
		Name:     name,
		Client:   r,
		IsAnswer: apierrors.IsForbidden,
		Retry:    &follow.RetryNowAndThen,
		Trim:     trim,
		Sink:     sink,
	}}
}

// kept returns the sources of objects.Kinds, except for those that are followed for their images as well.
func kept(kube kubernetes.Interface, dyn dynamic.Interface, store *objects.Store) []*source {
	const all = metav1.NamespaceAll
	clients := map[string]follow.Resource{
		workloads.Nodes:      follow.Builtin(kube.CoreV1().Nodes(), kube),
		workloads.Namespaces: follow.Builtin(kube.CoreV1().Namespaces(), kube),
		workloads.Quotas:     follow.Builtin(kube.CoreV1().ResourceQuotas(all), kube),
		workloads.Volumes:    follow.Builtin(kube.CoreV1().PersistentVolumes(), kube),
		workloads.Budgets:    follow.Builtin(kube.PolicyV1().PodDisruptionBudgets(all), kube),
		"services":           follow.Builtin(kube.CoreV1().Services(all), kube),
	}
	var sources []*source
	for _, k := range objects.Kinds() {
		if slices.Contains(images.Kinds(), k.GroupKind()) {
			continue
		}
		sink := keptSink{store, k}
		s := custom(dyn, k.GroupResource().WithVersion(k.Version), k.Former)
		s.Trim, s.Sink = sink.trim, sink
		if client, ok := clients[k.Resource]; ok {
			s = readable(s.Name, client, sink.trim, sink)
		}
		if s.role = k.Role; k.Name != "" {
			s.Object, s.PageSize = k.Name, 1
		}
		if k.Kind == policy.NodeKind || k.Kind == policy.PoolKind {
			s.kind = k.Kind
		}
		sources = append(sources, s)
	}
	return sources
}

// serviceAccounts returns the source of service accounts, from which pods made from templates get their
// pull secrets. If it may not be read, any account may have one. Secrets are not read: since 4.16 the
// account itself names the one that OpenShift has made, and before that it is not known.
func serviceAccounts(kube kubernetes.Interface, index *images.Index) *source {
	return readable("serviceaccounts", follow.Builtin(kube.CoreV1().ServiceAccounts(metav1.NamespaceAll), kube),
		func(o runtime.Object) any { return images.AccountOf(o.(*corev1.ServiceAccount)) }, indexSink[images.Account]{index.PutAccount, index.DeleteAccount, index.ReplaceAccounts})
}

// accountsKnown returns how complete and current a source of serviceAccounts is.
func accountsKnown(s follow.Status) images.Accounts {
	if !s.IsReadable() || s.IsBlind() {
		return images.StaleAccounts
	}
	return images.AllAccounts
}
