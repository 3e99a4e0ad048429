package snapshot

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Rollout returns the objects of the dump that a rollout depends on. Unknown names those that
// it lacks: a cluster has pods, nodes, budgets, and so on. The result is shared and must not
// be changed.
func (s *Snapshot) Rollout() rollout.Cluster { return s.RolloutObjects().Cluster() }

// RolloutObjects implements Source.
func (s *Snapshot) RolloutObjects() workloads.Objects {
	return workloads.Objects{
		Pods: s.pods.Pods(), Controllers: slices.SortedFunc(maps.Values(s.podOwners), workloads.CompareControllers), Nodes: s.Nodes(), Pools: s.pools.sorted(), Budgets: s.budgets.sorted(),
		Namespaces: s.namespaces.sorted(), Quotas: s.quotas.sorted(), Volumes: s.volumes.sorted(), MachineNodes: s.updates.sorted(), Pinned: s.pinned.sorted(),
		Machines: s.machines["/cluster"], Version: s.versions["/version"],
		Infrastructure: s.topologies["/cluster"], Operator: s.operators["/"+machineConfigOperator],
		Controller: s.controller["/"+machineConfigController], DrainOverride: s.override,
		Unknown: s.unknown,
	}
}

// machineConfigOperator is the ClusterOperator of MCO.
const machineConfigOperator = "machine-config"

// machineConfigController is the ControllerConfig of a cluster.
const machineConfigController = "machine-config-controller"

// The kinds that only a rollout depends on.
var (
	namespaceKind      = corev1.SchemeGroupVersion.WithKind("Namespace")
	quotaKind          = corev1.SchemeGroupVersion.WithKind("ResourceQuota")
	volumeKind         = corev1.SchemeGroupVersion.WithKind("PersistentVolume")
	machineNodeKind    = mcfgv1.GroupVersion.WithKind("MachineConfigNode")
	operatorKind       = configv1.GroupVersion.WithKind("ClusterOperator")
	controllerKind     = mcfgv1.GroupVersion.WithKind("ControllerConfig")
	infrastructureKind = configv1.GroupVersion.WithKind("Infrastructure")
	// podSetKind is that of what workloads.Sets makes.
	podSetKind = schema.GroupVersionKind{Group: "mirrorset-guard.io", Version: "v1alpha1", Kind: "PodSet"}
	// podControllerKind is that of what workloads.EncodeController makes.
	podControllerKind = schema.GroupVersionKind{Group: "mirrorset-guard.io", Version: "v1alpha1", Kind: "PodController"}
	// lackingKind is that of lacking.
	lackingKind = schema.GroupVersionKind{Group: "mirrorset-guard.io", Version: "v1alpha1", Kind: "Lacking"}
)

// lacking are the resources that a dump lacks because its source did not know them: a resource that
// is neither among them nor in the dump is not in the cluster either.
type lacking struct {
	Resources []string `json:"resources"`
	// Quotas says that ResourceQuotas were looked for, which dumps lack that were written before.
	Quotas bool `json:"quotas,omitempty"`
	// SignaturesUnread says why there may be more signatures of releases than the dump has.
	SignaturesUnread string `json:"signaturesUnread,omitempty"`
	// ExposedUnread are the resources that expose the cluster and that its source could not read.
	ExposedUnread []string `json:"exposedUnread,omitempty"`
	// Unread are the other parts of the cluster that its source did not know.
	Unread []unreadPart `json:"unread,omitempty"`
}

// An unreadPart is a policy.Gap in a dump.
type unreadPart struct {
	Source  string `json:"source"`
	Kind    string `json:"kind"`
	Detail  string `json:"detail"`
	Unread  bool   `json:"unread,omitempty"`
	Excused bool   `json:"excused,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// rolloutResources are the resources that a rollout depends on, by kind.
var rolloutResources = map[string]string{
	podKind.Kind: workloads.Pods, podSetKind.Kind: workloads.Pods, "Node": workloads.Nodes,
	"MachineConfigPool": workloads.Pools, "PodDisruptionBudget": workloads.Budgets,
	namespaceKind.Kind: workloads.Namespaces, quotaKind.Kind: workloads.Quotas, volumeKind.Kind: workloads.Volumes,
	operatorKind.Kind: workloads.Operators, infrastructureKind.Kind: workloads.Infrastructures,
	machineConfigurationKind.Kind: workloads.Machines, clusterVersionKind.Kind: workloads.Versions,
}

func (r *reader) pod(pod *corev1.Pod) {
	r.hasPods = true
	if p := r.pods.Trim(pod); p != nil {
		r.pods.Put(p)
		return
	}
	r.pods.Remove(pod.Namespace, pod.Name)
}

func (r *reader) podSet(data []byte) error {
	r.hasPods = true
	return r.pods.PutSet(data)
}

func (r *reader) podController(data []byte) error {
	c, err := workloads.DecodeController(data)
	if err == nil {
		r.keepController(c)
	}
	return err
}

// ownerOfPods keeps what a rollout depends on of a controller of pods.
func (r *reader) ownerOfPods(kind schema.GroupKind, data []byte) error {
	switch kind {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		var o appsv1.StatefulSet
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		r.keepController(workloads.StatefulSet(&o))
		return nil
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		return r.mayFail(data, new(appsv1.Deployment), "Deployment")
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		return r.mayFail(data, new(appsv1.ReplicaSet), "ReplicaSet")
	case schema.GroupKind{Kind: "ReplicationController"}:
		return r.mayFail(data, new(corev1.ReplicationController), "ReplicationController")
	default:
		return nil
	}
}

// mayFail keeps what FailingController does.
func (r *reader) mayFail(data []byte, o interface {
	runtime.Object
	metav1.Object
}, kind string,
) error {
	if err := json.Unmarshal(data, o); err != nil {
		return err
	}
	if c := workloads.FailingController(o); c != nil {
		r.keepController(*c)
	} else {
		delete(r.podOwners, controllerKey{o.GetNamespace(), rollout.Owner{Kind: kind, Name: o.GetName()}})
	}
	return nil
}

// A controllerKey names a controller of pods.
type controllerKey struct {
	namespace string
	rollout.Owner
}

// keepController keeps what counts of a controller.
func (r *reader) keepController(c rollout.Controller) {
	r.podOwners[controllerKey{c.Namespace, c.Owner}] = c
}

func (r *reader) lacking(data []byte) error {
	var o lacking
	if err := strictjson.Unmarshal(data, &o); err != nil {
		return err
	}
	r.written = true
	r.noQuotas = r.noQuotas || o.Quotas
	r.exposedUnread = append(r.exposedUnread, o.ExposedUnread...)
	r.signaturesWhy = cmp.Or(r.signaturesWhy, o.SignaturesUnread)
	for _, part := range o.Unread {
		gap := policy.Gap(part)
		gap.Unread = true // a reader of the dump cannot wait for it
		r.gaps = append(r.gaps, gap)
	}
	if r.lacks == nil {
		r.lacks = new([]string)
	}
	*r.lacks = append(*r.lacks, o.Resources...)
	return nil
}

func (r *reader) quota(data []byte) error { return keep(data, objects.TrimQuota, &r.quotas) }

func (r *reader) volume(data []byte) error { return keep(data, objects.TrimVolume, &r.volumes) }

func (r *reader) machineNode(data []byte) error {
	return keep(data, objects.TrimMachineConfigNode, &r.updates)
}

// infrastructure keeps an Infrastructure, and searches it for images as an unknown kind.
func (r *reader) infrastructure(data []byte) error {
	if h, err := images.DecodeGuess(infrastructureKind.GroupKind(), data); err == nil && len(h.References) > 0 && h.Name != "" {
		r.put(h)
	}
	return keep(data, objects.TrimInfrastructure, &r.topologies)
}

// unknownResources returns what a rollout depends on and the dump does not tell. A dump that
// does not say what it lacks, lacks what every cluster has and it has not. The others may
// well be missing in a cluster: without them it goes by the defaults.
func (r *reader) unknownResources() []string {
	unknown := slices.Clone(r.unread)
	if r.lacks != nil {
		unknown = append(unknown, *r.lacks...)
		if len(r.quotas) == 0 && !r.noQuotas {
			unknown = append(unknown, workloads.Quotas)
		}
		return unknown
	}
	usesClaims := false
	for _, p := range r.pods.Pods() {
		usesClaims = usesClaims || len(p.Spec.Claims) > 0
	}
	for _, resource := range []struct {
		name  string
		known bool
	}{
		{workloads.Pods, r.hasPods},
		{workloads.Nodes, len(r.nodes) > 0},
		{workloads.Pools, len(r.pools) > 0},
		{workloads.Budgets, len(r.budgets) > 0 || r.policy},
		{workloads.Namespaces, len(r.namespaces) > 0},
		{workloads.Quotas, len(r.quotas) > 0 || r.noQuotas},
		{workloads.Volumes, len(r.volumes) > 0 || !usesClaims},
		{workloads.Operators, r.operators["/"+machineConfigOperator] != nil},
		{workloads.Infrastructures, r.topologies["/cluster"] != nil},
	} {
		if !resource.known {
			unknown = append(unknown, resource.name)
		}
	}
	return unknown
}

// rollout writes what only a rollout depends on; nodes, pools, budgets and the
// configuration are written for other reasons.
func (w *writer) rollout(o workloads.Objects) {
	if o.Infrastructure != nil {
		w.object(infrastructureKind, o.Infrastructure)
	}
	if o.Operator != nil {
		w.object(operatorKind, o.Operator)
	}
	if o.Controller != nil {
		w.object(controllerKind, o.Controller)
	}
	if o.DrainOverride {
		named := metav1.ObjectMeta{Namespace: workloads.DrainOverride.Namespace, Name: workloads.DrainOverride.Name}
		w.object(corev1.SchemeGroupVersion.WithKind(configMapKind.Kind), &corev1.ConfigMap{ObjectMeta: named})
	}
	for _, n := range o.MachineNodes {
		w.object(machineNodeKind, n)
	}
	for _, n := range o.Namespaces {
		w.object(namespaceKind, n)
	}
	for _, q := range o.Quotas {
		w.object(quotaKind, q)
	}
	for _, v := range o.Volumes {
		w.object(volumeKind, v)
	}
	for _, c := range o.Controllers {
		w.object(podControllerKind, workloads.EncodeController(c))
	}
	for set := range workloads.Sets(o.Pods) {
		w.object(podSetKind, set)
	}
}
