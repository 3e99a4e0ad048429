package cluster

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// exposed holds the names and addresses by which workloads of the cluster are reached from outside, by kind.
type exposed struct {
	byKind   map[string]*table[[]string]
	followed []*source
}

func (e *exposed) sources(kube kubernetes.Interface, dyn dynamic.Interface) []*source {
	e.byKind = map[string]*table[[]string]{}
	sink := func(kind string) follow.Sink {
		e.byKind[kind] = &table[[]string]{}
		return hostSink{e.byKind[kind]}
	}
	hosts := func(s *source, kind string, of func(runtime.Object) []string) *source {
		s.Trim, s.Sink = func(o runtime.Object) any { return of(o) }, sink(kind)
		return s
	}
	ingress := optional(dyn, resourceOf(configv1.GroupName, "v1", "ingresses"))
	ingress.Object, ingress.PageSize = "cluster", 1
	e.followed = []*source{
		hosts(ingress, "Ingress", func(o runtime.Object) []string { return objects.IngressHosts(follow.Typed[configv1.Ingress](o)) }),
		hosts(optional(dyn, resourceOf(operatorv1.GroupName, "v1", "ingresscontrollers")), "IngressController", func(o runtime.Object) []string {
			return objects.RouterHosts(follow.Typed[operatorv1.IngressController](o))
		}),
		hosts(optional(dyn, resourceOf(routev1.GroupName, "v1", "routes")), "Route", func(o runtime.Object) []string {
			return objects.RouteHosts(follow.Typed[routev1.Route](o))
		}),
		readable("services", follow.Builtin(kube.CoreV1().Services(metav1.NamespaceAll), kube),
			func(o runtime.Object) any { return objects.ServiceHosts(o.(*corev1.Service)) }, sink("Service")),
	}
	return e.followed
}

// A hostSink enters the hosts of those objects that have some.
type hostSink struct{ *table[[]string] }

// Put implements follow.Sink.
func (s hostSink) Put(o *follow.Object) {
	if len(o.Value.([]string)) == 0 {
		s.Remove(o.Namespace, o.Name)
		return
	}
	s.table.Put(o)
}

// Replace implements follow.Sink.
func (s hostSink) Replace(all []*follow.Object, err error) {
	s.table.Replace(slices.DeleteFunc(slices.Clone(all), func(o *follow.Object) bool { return len(o.Value.([]string)) == 0 }), err)
}

// Exposed returns the objects by which what runs on the cluster is reached from outside, sorted.
func (c *Inventory) Exposed() []objects.Exposed {
	var all []objects.Exposed
	for kind, of := range c.exposed.byKind {
		of.each(func(key types.NamespacedName, hosts []string) {
			all = append(all, objects.Exposed{Object: kind + " " + strings.TrimPrefix(key.String(), "/"), Hosts: hosts})
		})
	}
	slices.SortFunc(all, func(a, b objects.Exposed) int { return strings.Compare(a.Object, b.Object) })
	return all
}

// ExposedUnread returns the resources whose objects could not be read, or not lately.
func (c *Inventory) ExposedUnread() []string {
	var unread []string
	for _, s := range c.exposed.followed {
		if status := s.Status(); !status.Synced || status.IsForbidden() || status.IsBlind() {
			unread = append(unread, s.Name)
		}
	}
	return unread
}
