package cluster

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Nodes returns the nodes of the cluster as objects.TrimNode leaves them, sorted by name.
// They are shared and must not be changed. The result is empty if they may not be read.
func (c *Inventory) Nodes() []*corev1.Node { return objects.All[*corev1.Node](&c.kept) }

// EndingNamespaces is as in plan.Cluster.
func (c *Inventory) EndingNamespaces() map[string]bool {
	return objects.EndingNamespaces(objects.All[*corev1.Namespace](&c.kept))
}

// Proxy returns proxy.config.openshift.io cluster as objects.TrimProxy leaves it, nil if
// there is none.
func (c *Inventory) Proxy() *configv1.Proxy { return objects.One[*configv1.Proxy](&c.kept) }

// Rollout returns the objects that a rollout depends on, as they are now. Unknown names the resources
// that may not be read, those that are stale, and those that have not been read yet; resources that
// the cluster does not serve are not among them. The result is shared and must not be changed.
func (c *Inventory) Rollout() rollout.Cluster { return c.RolloutObjects().Cluster() }

// RolloutObjects returns the objects that Rollout is made from. They are shared and must not
// be changed.
func (c *Inventory) RolloutObjects() workloads.Objects {
	o := c.ProgressObjects() // what is unknown comes before the objects are taken, as with Gaps
	o.Pods, o.Controllers = c.pods.Pods(), c.keptControllers()
	return o
}

// ProgressObjects returns those of RolloutObjects that are not pods or their controllers, which take long with many.
func (c *Inventory) ProgressObjects() workloads.Objects {
	unknown := c.unknown()
	o := workloads.ObjectsOf(&c.kept)
	o.Unknown, o.DrainOverride = unknown, c.drainOverride.Load()
	return o
}

// leaveOut forgoes the sources without a role in a rollout, and those of other roles than o asks for: their objects are unknown. One that
// may not be read then counts as unknown, too.
func (c *Inventory) leaveOut(o Options) {
	c.sources = slices.DeleteFunc(c.sources, func(s *source) bool {
		left := !s.role.IsOfRollout() || o.OnlyProgress && !s.role.Has(objects.Progress)
		if left && s.role.Has(objects.Needed) {
			c.left = append(c.left, s.resource())
		}
		return left
	})
	for _, s := range c.sources {
		if s.IsAnswer == nil {
			s.IsAnswer, s.Retry = follow.NotServedOrForbidden, &follow.RetryNowAndThen
		}
	}
}

// unknown returns the resources of a rollout that are not known as they are now.
func (c *Inventory) unknown() []string {
	names := slices.Clone(c.left)
	for _, s := range c.sources {
		if status := s.Status(); s.role.Has(objects.Needed) && (!status.Synced || status.IsForbidden() || status.IsBlind()) {
			names = append(names, s.resource())
		}
	}
	return names
}

// resource is how a rollout calls what s follows.
func (s *source) resource() string {
	if s.isConfigMap {
		return workloads.ConfigMaps
	}
	return schema.ParseGroupResource(s.Name).Resource
}

// controllerResources are those of controllers of pods that a rollout depends on.
var controllerResources = []string{"statefulsets.apps", "replicasets.apps", "replicationcontrollers", "deployments.apps"}

// keptControllers returns those that a rollout depends on.
func (c *Inventory) keptControllers() []rollout.Controller {
	var all []rollout.Controller
	for i := range c.controllers {
		for _, controller := range c.controllers[i].All() {
			if controller != nil {
				all = append(all, *controller)
			}
		}
	}
	slices.SortFunc(all, workloads.CompareControllers)
	return all
}

// drainOverride returns the source of ConfigMap workloads.DrainOverride, where only its existence
// matters.
func drainOverride(kube kubernetes.Interface, sink follow.One) *source {
	s := configMap(kube, workloads.DrainOverride, func(*corev1.ConfigMap) any { return true }, sink)
	s.role = objects.Needed | objects.Progress
	return s
}
