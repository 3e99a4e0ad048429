package cluster

import (
	imagev1 "github.com/openshift/api/image/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A source is one resource that an Inventory follows.
type source struct {
	*follow.Source
	// kind is that of the objects, as images.Holder.Kind has it; "" for those that name no
	// images, or none that anything pulls.
	kind string
	// unread is the kind of the gap where the source may not be read: kind, or that of other objects that a verdict needs (nodes,
	// pools); "" where nothing is said about images without them.
	unread string
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

// builtins returns the sources of images.BuiltinKinds.
func builtins(kube kubernetes.Interface, index *images.Index) []*source {
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
	var sources []*source
	for _, k := range images.BuiltinKinds() {
		name := k.Resource.String()
		sources = append(sources, &source{
			kind:      k.Kind,
			unread:    k.Kind,
			templates: k.ReadsTemplates(),
			Source: &follow.Source{
				Name:   name,
				Client: clients[name],
				Trim: func(o runtime.Object) any {
					h, _ := images.Extract(o)
					return images.Pack(h.References)
				},
				Sink: holderSink{index, k.Kind},
			},
		})
	}
	return sources
}

// custom returns the sources of everything else that names images.
func custom(dyn dynamic.Interface, index *images.Index) []*source {
	var sources []*source
	for _, k := range images.CustomKinds() {
		s := optional(dyn, k.Resource)
		if k.FormerVersion != "" {
			s.Client = follow.FirstServed(s.Client, follow.Custom(dyn, k.Resource.GroupResource().WithVersion(k.FormerVersion)))
		}
		s.unread = k.Kind
		if !k.IsHistory() {
			s.kind, s.templates = k.Kind, k.ReadsTemplates()
		}
		s.Trim = func(o runtime.Object) any { return images.Pack(k.Extract(o.(*unstructured.Unstructured)).References) }
		s.Sink = holderSink{index, k.Kind}
		if k.Large {
			s.PageSize = pageSizeLarge
		}
		if k.Without != "" {
			s.Labels = "!" + k.Without
		}
		sources = append(sources, s)
	}
	return sources
}

// configMaps returns the sources of images.ImageConfigMaps.
func configMaps(kube kubernetes.Interface, index *images.Index) []*source {
	var sources []*source
	for _, key := range images.ImageConfigMaps() {
		s := configMap(kube, key, func(cm *corev1.ConfigMap) any { return images.Pack(images.ExtractConfigMap(cm).References) },
			holderSink{index, images.ConfigMapKind.Kind}.one(key))
		s.kind, s.unread = images.ConfigMapKind.Kind, images.ConfigMapKind.Kind
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

// optional returns the source of a custom resource, without Trim and Sink. A cluster that
// does not serve the resource has no such objects. If it may not be read, Notes says so
// with each answer, and the guard works all the same: its absence would do more harm.
func optional(dyn dynamic.Interface, r schema.GroupVersionResource) *source {
	return &source{isOptional: true, Source: &follow.Source{
		Name:     r.GroupResource().String(),
		Client:   follow.Custom(dyn, r),
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

func nodes(kube kubernetes.Interface, sink follow.Sink) *source {
	s := readable(workloads.Nodes, follow.Builtin(kube.CoreV1().Nodes(), kube),
		func(o runtime.Object) any { return objects.TrimNode(o.(*corev1.Node)) }, sink)
	s.unread = policy.NodeKind
	return s
}

func disruptionBudgets(kube kubernetes.Interface, sink follow.Sink) *source {
	return readable("poddisruptionbudgets.policy", follow.Builtin(kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll), kube),
		func(o runtime.Object) any { return objects.TrimDisruptionBudget(o.(*policyv1.PodDisruptionBudget)) }, sink)
}

func namespaces(kube kubernetes.Interface, sink follow.Sink) *source {
	return readable(workloads.Namespaces, follow.Builtin(kube.CoreV1().Namespaces(), kube),
		func(o runtime.Object) any { return objects.TrimNamespace(o.(*corev1.Namespace)) }, sink)
}

func quotas(kube kubernetes.Interface, sink follow.Sink) *source {
	return readable(workloads.Quotas, follow.Builtin(kube.CoreV1().ResourceQuotas(metav1.NamespaceAll), kube),
		func(o runtime.Object) any { return objects.TrimQuota(o.(*corev1.ResourceQuota)) }, sink)
}

// volumes returns the source of what ties claims to nodes. The claims need not be read: a
// volume names the one that it is bound to.
func volumes(kube kubernetes.Interface, sink follow.Sink) *source {
	return readable(workloads.Volumes, follow.Builtin(kube.CoreV1().PersistentVolumes(), kube),
		func(o runtime.Object) any { return objects.TrimVolume(o.(*corev1.PersistentVolume)) }, sink)
}

// serviceAccounts returns the source of service accounts, from which pods made from templates get their
// pull secrets. If it may not be read, any account may have one. Secrets are not read: since 4.16 the
// account itself names the one that OpenShift has made, and before that it is not known.
func serviceAccounts(kube kubernetes.Interface, index *images.Index) *source {
	return readable("serviceaccounts", follow.Builtin(kube.CoreV1().ServiceAccounts(metav1.NamespaceAll), kube),
		func(o runtime.Object) any { return images.AccountOf(o.(*corev1.ServiceAccount)) }, accountSink(index))
}

// accountsKnown returns how complete and current a source of serviceAccounts is.
func accountsKnown(s follow.Status) images.Accounts {
	if !s.IsReadable() || s.Stale {
		return images.StaleAccounts
	}
	return images.AllAccounts
}

func trimStream(o runtime.Object) any {
	return images.StreamOf(follow.Typed[imagev1.ImageStream](o))
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

var poolResource = resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigpools")

func pools(dyn dynamic.Interface, sink follow.Sink) *source {
	s := optional(dyn, poolResource)
	s.unread = policy.PoolKind
	s.Trim = decoded(objects.TrimPool)
	s.Sink = sink
	return s
}

// machineNodes returns the source of MachineConfigNodes, which show how long nodes took for their last
// update. OpenShift serves them from 4.16 on, at first in another version.
func machineNodes(dyn dynamic.Interface, sink follow.Sink) *source {
	r := poolResource.GroupVersion().WithResource("machineconfignodes")
	s := optional(dyn, r)
	s.Client = follow.FirstServed(s.Client, follow.Custom(dyn, r.GroupResource().WithVersion("v1alpha1")))
	s.Trim = decoded(objects.TrimMachineConfigNode)
	s.Sink = sink
	return s
}
