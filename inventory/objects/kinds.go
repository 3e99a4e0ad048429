package objects

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Role is the part that objects play, most of them in the forecast of a rollout.
type Role int

const (
	// Needed means that they are unknown to a rollout where they cannot be read.
	Needed Role = 1 << iota
	// Progress means that they show how far a rollout is. Others show why it does not move, and are by far the larger.
	Progress
	// Exposes means that workloads are reached from outside by them. What is kept of them is Exposed.
	Exposes
)

// IsOfRollout reports whether a rollout depends on objects of that role.
func (r Role) IsOfRollout() bool { return r&(Needed|Progress) != 0 }

// Has reports whether all of other is in r.
func (r Role) Has(other Role) bool { return r&other == other }

// A Kind is one of those whose objects a Store holds.
type Kind struct {
	schema.GroupVersionKind
	Resource string
	// Former is the version to ask for if the cluster does not serve that of the kind, "" for none.
	Former string
	// Name is that of the only object that counts, "" where all do.
	Name string
	Role Role

	of, as reflect.Type // *corev1.Node: of the object, and of what is kept of it
	trim   func(metav1.Object) metav1.Object
}

// Kinds returns the kinds whose objects are kept besides images. Decode of package images knows some of them, too.
func Kinds() []Kind { return kinds }

var kinds = []Kind{
	kept(corev1.SchemeGroupVersion, "Node", "nodes", "", Needed|Progress, TrimNode),
	kept(mcfgv1.GroupVersion, "MachineConfigPool", "machineconfigpools", "", Needed|Progress, TrimPool),
	kept(policyv1.SchemeGroupVersion, "PodDisruptionBudget", "poddisruptionbudgets", "", Needed, TrimDisruptionBudget),
	kept(operatorv1.GroupVersion, "MachineConfiguration", "machineconfigurations", "cluster", Needed|Progress, TrimMachineConfiguration),
	kept(configv1.GroupVersion, "Proxy", "proxies", "cluster", 0, TrimProxy),
	kept(configv1.GroupVersion, "ClusterVersion", "clusterversions", "version", Needed|Progress, TrimClusterVersion),
	kept(configv1.GroupVersion, "Infrastructure", "infrastructures", "cluster", Needed|Progress, TrimInfrastructure),
	kept(configv1.GroupVersion, "ClusterOperator", "clusteroperators", "machine-config", Needed|Progress, TrimClusterOperator),
	kept(mcfgv1.GroupVersion, "ControllerConfig", "controllerconfigs", "machine-config-controller", Progress, TrimControllerConfig),
	// It shows how long a node took for its last update. OpenShift serves it from 4.16 on, at first in another version.
	kept(mcfgv1.GroupVersion, "MachineConfigNode", "machineconfignodes", "", Needed|Progress, TrimMachineConfigNode).before("v1alpha1"),
	kept(mcfgv1.GroupVersion, "PinnedImageSet", "pinnedimagesets", "", Needed|Progress, TrimPinnedImageSet).before("v1alpha1"),
	kept(corev1.SchemeGroupVersion, "Namespace", "namespaces", "", Needed, TrimNamespace),
	kept(corev1.SchemeGroupVersion, "ResourceQuota", "resourcequotas", "", Needed, TrimQuota),
	// It ties claims to nodes. The claims need not be read: a volume names the one that it is bound to.
	kept(corev1.SchemeGroupVersion, "PersistentVolume", "persistentvolumes", "", Needed, TrimVolume),
	kept(configv1.GroupVersion, "Ingress", "ingresses", "cluster", Exposes, exposedBy("Ingress", IngressHosts)),
	kept(operatorv1.GroupVersion, "IngressController", "ingresscontrollers", "", Exposes, exposedBy("IngressController", RouterHosts)),
	kept(routev1.GroupVersion, "Route", "routes", "", Exposes, exposedBy("Route", RouteHosts)),
	kept(corev1.SchemeGroupVersion, "Service", "services", "", Exposes, exposedBy("Service", ServiceHosts)),
}

func kept[From, To metav1.Object](gv schema.GroupVersion, kind, resource, name string, role Role, trim func(From) To) Kind {
	return Kind{
		GroupVersionKind: gv.WithKind(kind), Resource: resource, Name: name, Role: role,
		of: reflect.TypeFor[From](), as: reflect.TypeFor[To](), trim: func(o metav1.Object) metav1.Object { return trim(o.(From)) },
	}
}

func (k Kind) before(version string) Kind {
	k.Former = version
	return k
}

// GroupResource returns the resource of the kind.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// KindOf finds the row of a kind; false if there is none.
func KindOf(kind schema.GroupKind) (Kind, bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GroupKind() == kind })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// Of returns the kind of an object that a Store holds.
func Of(o metav1.Object) schema.GroupVersionKind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.as == reflect.TypeOf(o) })
	return kinds[i].GroupVersionKind
}

// Trim returns the kept part of an object, which may be without a type of its own. The API server has checked its
// fields: should they differ from ours all the same, a partly decoded object is better than none.
func (k Kind) Trim(o runtime.Object) metav1.Object {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return k.trim(o.(metav1.Object))
	}
	typed := reflect.New(k.of.Elem()).Interface()
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed)
	return k.trim(typed.(metav1.Object))
}

// Decode is Trim for an object written as JSON.
func (k Kind) Decode(data []byte) (metav1.Object, error) {
	o := reflect.New(k.of.Elem()).Interface()
	if err := json.Unmarshal(data, o); err != nil {
		return nil, err
	}
	return k.trim(o.(metav1.Object)), nil
}

// A Store holds trimmed objects of Kinds, by their names. The zero value is empty and ready. It is safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	rows map[schema.GroupKind]map[types.NamespacedName]metav1.Object
}

// Put enters an object of a kind, instead of the one of its name. One that does not count is left out.
func (s *Store) Put(k Kind, o metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(k, o)
}

func (s *Store) put(k Kind, o metav1.Object) {
	if k.Name != "" && k.Name != o.GetName() {
		return
	}
	kind, key := k.GroupKind(), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	if e, is := o.(*Exposed); is && len(e.Hosts) == 0 {
		delete(s.rows[kind], key)
		return
	}
	if s.rows == nil {
		s.rows = map[schema.GroupKind]map[types.NamespacedName]metav1.Object{}
	}
	if s.rows[kind] == nil {
		s.rows[kind] = map[types.NamespacedName]metav1.Object{}
	}
	s.rows[kind][key] = o
}

// Remove forgets an object, if it is there.
func (s *Store) Remove(k Kind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows[k.GroupKind()], types.NamespacedName{Namespace: namespace, Name: name})
}

// Replace enters all objects of a kind, instead of those that were there.
func (s *Store) Replace(k Kind, all []metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, k.GroupKind())
	for _, o := range all {
		s.put(k, o)
	}
}

// All returns the objects of a type, sorted by namespace and name. They are shared and must not be changed.
func All[P metav1.Object](s *Store) []P {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []P{}
	for _, k := range kinds {
		if k.as == reflect.TypeFor[P]() {
			for _, o := range s.rows[k.GroupKind()] {
				all = append(all, o.(P))
			}
		}
	}
	slices.SortFunc(all, func(a, b P) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// One returns the only object of a type, nil if there is none.
func One[P metav1.Object](s *Store) (one P) {
	if all := All[P](s); len(all) > 0 {
		return all[0]
	}
	return one
}
