package snapshot

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
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
	o := workloads.ObjectsOf(&s.kept)
	o.Pods, o.Controllers = s.pods.Pods(), slices.SortedFunc(maps.Values(s.podOwners), workloads.CompareControllers)
	o.DrainOverride, o.Unknown = s.override, s.unknown
	return o
}

// The kinds of this package's own that only a rollout depends on.
var (
	// podSetKind is that of what workloads.Sets makes.
	podSetKind = ownVersion.WithKind("PodSet")
	// podControllerKind is that of what workloads.EncodeController makes.
	podControllerKind = ownVersion.WithKind("PodController")
	// lackingKind is that of lacking.
	lackingKind = ownVersion.WithKind("Lacking")
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
	// Unsearched are the kinds that it could not search.
	Unsearched []unreadPart `json:"unsearched,omitempty"`
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

// rolloutResources returns the resources of a kind that a rollout needs, none for another kind.
func rolloutResources(kind string) []string {
	switch resource, ok := rollout.ControllerResources[kind]; {
	case ok:
		return []string{resource}
	case kind == podKind.Kind || kind == podSetKind.Kind:
		return []string{workloads.Pods}
	case kind == podControllerKind.Kind:
		return slices.Collect(maps.Values(rollout.ControllerResources))
	}
	for _, k := range objects.Kinds() {
		if k.Kind == kind && k.Role.Has(objects.Needed) {
			return []string{k.Resource}
		}
	}
	return nil
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
		r.podOwners[controllerKey{c.Namespace, c.Owner}] = c
	}
	return err
}

// ownerOfPods keeps what a rollout depends on of a controller of pods.
func (r *reader) ownerOfPods(kind schema.GroupKind, data []byte) error {
	var o interface {
		runtime.Object
		metav1.Object
	}
	switch kind {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		o = new(appsv1.StatefulSet)
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		o = new(appsv1.Deployment)
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		o = new(appsv1.ReplicaSet)
	case schema.GroupKind{Kind: "ReplicationController"}:
		o = new(corev1.ReplicationController)
	default:
		return nil
	}
	if err := json.Unmarshal(data, o); err != nil {
		return err
	}
	key := controllerKey{o.GetNamespace(), rollout.Owner{Kind: kind.Kind, Name: o.GetName()}}
	if c := workloads.ControllerOf(o); c != nil {
		r.podOwners[key] = *c
	} else {
		delete(r.podOwners, key)
	}
	return nil
}

// A controllerKey names a controller of pods.
type controllerKey struct {
	namespace string
	rollout.Owner
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
	r.gaps, r.unsearched = append(r.gaps, gapsOf(o.Unread)...), append(r.unsearched, gapsOf(o.Unsearched)...)
	if r.lacks == nil {
		r.lacks = new([]string)
	}
	*r.lacks = append(*r.lacks, o.Resources...)
	return nil
}

// gapsOf returns what a dump lacks as its readers have it: they cannot wait for it.
func gapsOf(parts []unreadPart) []policy.Gap {
	return convert.Each(parts, func(p unreadPart) policy.Gap {
		p.Unread = true
		return policy.Gap(p)
	})
}

// infrastructure keeps an Infrastructure, and searches it for images as an unknown kind.
func (r *reader) infrastructure(data []byte) error {
	k, _ := objects.KindOf(schema.GroupKind{Group: configv1.GroupName, Kind: "Infrastructure"})
	if h, err := images.DecodeGuess(k.GroupKind(), data); err == nil && len(h.References) > 0 && h.Name != "" {
		r.put(h)
	}
	return r.keepKind(k, data)
}

// unknownResources returns what a rollout depends on and the dump does not tell. A dump that
// does not say what it lacks, lacks what every cluster has and it has not, and what has made its pods. The others may
// well be missing in a cluster: without them it goes by the defaults.
func (r *reader) unknownResources() []string {
	unknown, o := slices.Clone(r.unread), workloads.ObjectsOf(&r.kept)
	if r.lacks != nil {
		unknown = append(unknown, *r.lacks...)
		if len(o.Quotas) == 0 && !r.noQuotas {
			unknown = append(unknown, workloads.Quotas)
		}
		return unknown
	}
	usesClaims, makers := false, map[string]bool{}
	for _, p := range r.pods.Pods() {
		usesClaims = usesClaims || len(p.Spec.Claims) > 0
		makers[p.Owner.Kind], makers[p.Workload().Kind] = true, true
	}
	for of := range r.templates {
		delete(makers, of.kind.Kind)
	}
	for kind := range makers {
		if resource, ok := rollout.ControllerResources[kind]; ok {
			unknown = append(unknown, resource)
		}
	}
	for _, resource := range []struct {
		name  string
		known bool
	}{
		{workloads.Pods, r.hasPods},
		{workloads.Nodes, len(o.Nodes) > 0},
		{workloads.Pools, len(o.Pools) > 0},
		{workloads.Budgets, len(o.Budgets) > 0 || r.policy},
		{workloads.Namespaces, len(o.Namespaces) > 0},
		{workloads.Quotas, len(o.Quotas) > 0 || r.noQuotas},
		{workloads.Volumes, len(o.Volumes) > 0 || !usesClaims},
		{workloads.Operators, o.Operator != nil},
		{workloads.Infrastructures, o.Infrastructure != nil},
		{workloads.Machines, o.Machines != nil || workloads.RunsOnly(o.Version, 7, 15)}, // there are node disruption policies from 4.16 on
	} {
		if !resource.known {
			unknown = append(unknown, resource.name)
		}
	}
	return unknown
}

// cluster writes nodes, what decides which of them are drained when, and the configuration.
func (w *writer) cluster(o workloads.Objects, proxy *configv1.Proxy) {
	writeAll(w, o.Nodes...)
	writeAll(w, o.Pools...)
	writeAll(w, o.Budgets...)
	writeAll(w, o.Machines)
	writeAll(w, proxy)
	writeAll(w, o.Version)
}

// rollout writes what only a rollout depends on.
func (w *writer) rollout(o workloads.Objects) {
	writeAll(w, o.Infrastructure)
	writeAll(w, o.Operator)
	writeAll(w, o.Controller)
	if o.DrainOverride {
		named := metav1.ObjectMeta{Namespace: workloads.DrainOverride.Namespace, Name: workloads.DrainOverride.Name}
		w.object(corev1.SchemeGroupVersion.WithKind(configMapKind.Kind), &corev1.ConfigMap{ObjectMeta: named})
	}
	writeAll(w, o.MachineNodes...)
	writeAll(w, o.Namespaces...)
	writeAll(w, o.Quotas...)
	writeAll(w, o.Volumes...)
	for _, c := range o.Controllers {
		w.object(podControllerKind, workloads.EncodeController(c))
	}
	for set := range workloads.Sets(o.Pods) {
		w.object(podSetKind, set)
	}
}

// writeAll writes objects of one of objects.Kinds, and leaves out nil.
func writeAll[P interface {
	comparable
	metav1.Object
}](w *writer, all ...P,
) {
	var none P
	for _, o := range all {
		if o != none {
			w.object(objects.Of(o), o)
		}
	}
}
