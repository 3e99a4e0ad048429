package cluster

import (
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
)

// A configuration holds the objects that a cluster has one of.
type configuration struct {
	machines table[*operatorv1.MachineConfiguration]
	images   table[*configv1.Image]
	proxy    table[*configv1.Proxy]
	version  table[*configv1.ClusterVersion]

	infrastructure table[*configv1.Infrastructure]
	operator       table[*configv1.ClusterOperator] // that of MCO; nil for the others
	controller     table[*mcfgv1.ControllerConfig]
}

// machineConfigOperator is the ClusterOperator of MCO.
const machineConfigOperator = "machine-config"

// trimOperator keeps MCO's, and of the others nothing.
func trimOperator(o runtime.Object) any {
	if operator := follow.Typed[configv1.ClusterOperator](o); operator.Name == machineConfigOperator {
		return objects.TrimClusterOperator(operator)
	}
	return (*configv1.ClusterOperator)(nil)
}

// machineConfigController is the ControllerConfig of a cluster.
const machineConfigController = "machine-config-controller"

// Proxy returns proxy.config.openshift.io cluster as objects.TrimProxy leaves it, nil if
// there is none.
func (c *Inventory) Proxy() *configv1.Proxy { return c.configuration.proxy.named("cluster") }

// sources returns the sources of the objects that are not followed for their images already: all but
// ClusterVersion, ControllerConfig and ClusterOperator.
func (c *configuration) sources(dyn dynamic.Interface) []*source {
	return []*source{
		single(dyn, resourceOf(operatorv1.GroupName, "v1", workloads.Machines), "cluster", objects.TrimMachineConfiguration, &c.machines),
		single(dyn, resourceOf(configv1.GroupName, "v1", "images"), "cluster", objects.TrimImageConfig, &c.images),
		single(dyn, resourceOf(configv1.GroupName, "v1", "proxies"), "cluster", objects.TrimProxy, &c.proxy),
		single(dyn, resourceOf(configv1.GroupName, "v1", workloads.Infrastructures), "cluster", objects.TrimInfrastructure, &c.infrastructure),
	}
}

// single returns the source of one object of a resource. It asks for this one only, which a
// role can grant by its name.
func single[T any](dyn dynamic.Interface, r schema.GroupVersionResource, name string, trim func(*T) *T, sink follow.Sink) *source {
	s := optional(dyn, r)
	s.Object = name
	s.PageSize = 1
	s.Trim = decoded(trim)
	s.Sink = sink
	return s
}

// decoded returns trim for objects without a type.
func decoded[T any](trim func(*T) *T) func(runtime.Object) any {
	return func(o runtime.Object) any { return trim(follow.Typed[T](o)) }
}
