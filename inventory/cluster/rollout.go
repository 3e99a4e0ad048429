package cluster

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Rollout returns the objects that a rollout depends on, as they are now. Unknown names the resources
// that may not be read, those that are stale, and those that have not been read yet; resources that
// the cluster does not serve are not among them. The result is shared and must not be changed.
func (c *Inventory) Rollout() rollout.Cluster { return c.RolloutObjects().Cluster() }

// RolloutObjects returns the objects that Rollout is made from. They are shared and must not
// be changed.
func (c *Inventory) RolloutObjects() workloads.Objects {
	unknown := c.unknown() // before the objects are taken, as with Gaps
	o := c.ProgressObjects()
	o.Unknown = unknown
	o.Pods, o.Budgets = c.pods.Pods(), c.budgets.sorted(byName)
	o.Controllers, o.Quotas = c.controllers(), c.quotas.sorted(byName)
	o.Namespaces, o.Volumes = c.namespaces.sorted(byName), c.volumes.sorted(byName)
	return o
}

// ProgressObjects returns those of RolloutObjects that show how far a rollout is: neither
// pods nor their controllers, which takes long with many.
func (c *Inventory) ProgressObjects() workloads.Objects {
	o := workloads.Objects{Unknown: c.unknown()}
	o.Nodes, o.Pools = c.Nodes(), c.pools.sorted(byName)
	o.Machines, o.Version = c.configuration.machines.named("cluster"), c.configuration.version.named("version")
	o.MachineNodes, o.Pinned = c.machineNodes.sorted(byName), c.pinned.sorted(byName)
	o.Infrastructure, o.Operator = c.configuration.infrastructure.named("cluster"), c.configuration.operator.named(machineConfigOperator)
	o.Controller = c.configuration.controller.named(machineConfigController)
	o.DrainOverride = !c.drainOverride.isEmpty()
	return o
}

// rolloutResources are those that a rollout depends on, each followed by one source.
var rolloutResources = []schema.GroupResource{
	{Resource: workloads.Pods},
	{Resource: workloads.Nodes},
	{Resource: workloads.Namespaces},
	{Resource: workloads.Quotas},
	{Resource: workloads.Volumes},
	{Group: "policy", Resource: workloads.Budgets},
	poolResource.GroupResource(),
	{Group: "operator.openshift.io", Resource: workloads.Machines},
	{Group: "config.openshift.io", Resource: workloads.Infrastructures},
	{Group: "config.openshift.io", Resource: workloads.Operators},
	{Group: "config.openshift.io", Resource: workloads.Versions},
}

// isOfRollout reports whether a rollout depends on s; a source that may not be read then counts
// as unknown.
func (c *Inventory) isOfRollout(s *source) bool {
	of := slices.Contains(rolloutResources, schema.ParseGroupResource(s.Name))
	of = of || s == c.drainSource || slices.Contains(alsoOfRollout, s.Name)
	if of && s.IsAnswer == nil {
		s.IsAnswer, s.Retry = follow.NotServedOrForbidden, &follow.RetryNowAndThen
	}
	return of
}

// alsoOfRollout are the sources of further details of a rollout, which is judged without them as
// well.
var alsoOfRollout = []string{
	"machineconfignodes.machineconfiguration.openshift.io", "pinnedimagesets.machineconfiguration.openshift.io", "controllerconfigs.machineconfiguration.openshift.io",
	"deployments.apps", "statefulsets.apps", "replicasets.apps", "replicationcontrollers",
}

// unknown returns the resources of a rollout that are not known as they are now.
func (c *Inventory) unknown() []string {
	var names []string
	for _, s := range c.sources {
		name := ""
		switch r := schema.ParseGroupResource(s.Name); {
		case s == c.drainSource:
			name = workloads.ConfigMaps
		case slices.Contains(rolloutResources, r):
			name = r.Resource
		default:
			continue
		}
		if status := s.Status(); !status.Synced || status.IsForbidden() || status.Stale {
			names = append(names, name)
		}
	}
	return append(names, c.notFollowed()...)
}

// trimPod keeps what a rollout depends on.
func trimPod(pods *workloads.Table) func(runtime.Object) any {
	return func(o runtime.Object) any { return pods.Trim(o.(*corev1.Pod)) }
}

func trimStatefulSet(o runtime.Object) any { return workloads.StatefulSet(o.(*appsv1.StatefulSet)) }

func trimFailing(o runtime.Object) any { return workloads.FailingController(o) }

// controllers returns those that a rollout depends on.
func (c *Inventory) controllers() []rollout.Controller {
	all := c.statefulSets.all()
	for i := range c.failing {
		for _, f := range c.failing[i].all() {
			if f != nil {
				all = append(all, *f)
			}
		}
	}
	slices.SortFunc(all, workloads.CompareControllers)
	return all
}

// drainOverride returns the source of ConfigMap workloads.DrainOverride, where only its existence
// matters.
func drainOverride(kube kubernetes.Interface, sink follow.Sink) *source {
	return configMap(kube, workloads.DrainOverride, func(*corev1.ConfigMap) any { return true }, sink)
}
