package workloads

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Objects are those of a cluster that a rollout depends on, as the Trim functions of package
// objects leave them.
type Objects struct {
	Pods           []rollout.Pod
	Controllers    []rollout.Controller // as CompareControllers orders them
	Nodes          []*corev1.Node
	Pools          []*mcfgv1.MachineConfigPool
	Budgets        []*policyv1.PodDisruptionBudget
	Quotas         []*corev1.ResourceQuota
	Namespaces     []*corev1.Namespace
	Volumes        []*corev1.PersistentVolume
	Machines       *operatorv1.MachineConfiguration
	Infrastructure *configv1.Infrastructure
	Operator       *configv1.ClusterOperator // machine-config
	Version        *configv1.ClusterVersion
	MachineNodes   []*mcfgv1.MachineConfigNode
	Pinned         []*mcfgv1.PinnedImageSet
	Controller     *mcfgv1.ControllerConfig // machine-config-controller
	// DrainOverride says that ConfigMap DrainOverride is there.
	DrainOverride bool
	// Unknown are the resources that could not be read, or not lately.
	Unknown []string
}

// ObjectsOf returns those that a Store holds.
func ObjectsOf(s *objects.Store) Objects {
	return Objects{
		Nodes: objects.All[*corev1.Node](s), Pools: objects.All[*mcfgv1.MachineConfigPool](s), Budgets: objects.All[*policyv1.PodDisruptionBudget](s),
		Quotas: objects.All[*corev1.ResourceQuota](s), Namespaces: objects.All[*corev1.Namespace](s), Volumes: objects.All[*corev1.PersistentVolume](s),
		MachineNodes: objects.All[*mcfgv1.MachineConfigNode](s), Pinned: objects.All[*mcfgv1.PinnedImageSet](s),
		Machines: objects.One[*operatorv1.MachineConfiguration](s), Infrastructure: objects.One[*configv1.Infrastructure](s),
		Operator: objects.One[*configv1.ClusterOperator](s), Version: objects.One[*configv1.ClusterVersion](s),
		Controller: objects.One[*mcfgv1.ControllerConfig](s),
	}
}

// DrainOverride is the ConfigMap by which MCO is kept from draining nodes when registries.conf
// changes (ImageRegistryDrainOverrideConfigmap in its
// pkg/controller/common/constants.go). Its content does not matter.
var DrainOverride = types.NamespacedName{Namespace: operatorNamespace, Name: "image-registry-override-drain"}

// operatorNamespace is that of MCO.
const operatorNamespace = "openshift-machine-config-operator"

// The resources that Unknown may name.
const (
	Pods            = "pods"
	Nodes           = "nodes"
	Pools           = "machineconfigpools"
	Budgets         = "poddisruptionbudgets"
	Quotas          = "resourcequotas"
	Namespaces      = "namespaces"
	Volumes         = "persistentvolumes"
	Machines        = "machineconfigurations"
	Infrastructures = "infrastructures"
	Operators       = "clusteroperators"
	Versions        = "clusterversions"
	ConfigMaps      = "configmaps"
)

// Cluster returns what a rollout goes through. It shares what o holds.
func (o Objects) Cluster() rollout.Cluster {
	c := rollout.Cluster{
		Pools: o.Pools, Nodes: o.Nodes, Machines: o.Machines, Operator: o.Operator, Pods: o.Pods, Controllers: o.Controllers, Budgets: o.Budgets, Quotas: o.Quotas,
		OperatorNode: operatorNode(o.Pods),
		// MCO of OpenShift 4.14 to 4.19 looks for it. What was read of both may no longer be so, and more drains are assumed then.
		OverrideDrain: o.DrainOverride && RunsOnly(o.Version, 14, 19) && !slices.Contains(o.Unknown, ConfigMaps) && !slices.Contains(o.Unknown, Versions),
		Namespaces:    labelsOf(o.Namespaces),
		Volumes:       volumesOf(o.Volumes),
		Unknown:       slices.Compact(slices.Sorted(slices.Values(o.Unknown))),
	}
	if len(o.Pinned) > 0 {
		c.PinnedSets = o.Pinned
	}
	for _, n := range o.MachineNodes {
		c.NodePins = append(c.NodePins, objects.PinsOf(n))
	}
	if o.Controller != nil {
		c.Certificates = o.Controller.Status.ControllerCertificates
	}
	if o.Infrastructure != nil {
		c.Topology = o.Infrastructure.Status.ControlPlaneTopology
	}
	return c
}

// operatorNode restates getOperatorNodeName (MCO's pkg/controller/node/node_controller.go),
// which expects one such pod and otherwise continues without.
func operatorNode(pods []rollout.Pod) string {
	node, found := "", 0
	for i := range pods {
		if p := &pods[i]; p.Namespace == operatorNamespace && p.Spec != nil && p.Spec.Labels["k8s-app"] == "machine-config-operator" {
			node = p.Node
			found++
		}
	}
	if found != 1 {
		return ""
	}
	return node
}

// RunsOnly reports whether MCO is of OpenShift 4.first to 4.last. While the cluster is being updated, it is of the version before or of
// that after, and both have to be.
func RunsOnly(v *configv1.ClusterVersion, first, last int) bool {
	if v == nil {
		return false
	}
	versions := []string{v.Status.Desired.Version}
	for _, h := range v.Status.History {
		if h.State == configv1.CompletedUpdate { // the latest comes first
			versions = append(versions, h.Version)
			break
		}
	}
	return !slices.ContainsFunc(versions, func(version string) bool {
		var major, minor int
		_, err := fmt.Sscanf(version, "%d.%d.", &major, &minor)
		return err != nil || major != 4 || minor < first || minor > last
	})
}

// labelsOf returns nil for no namespaces: no cluster has none.
func labelsOf(namespaces []*corev1.Namespace) map[string]labels.Set {
	if len(namespaces) == 0 {
		return nil
	}
	sets := make(map[string]labels.Set, len(namespaces))
	for _, n := range namespaces {
		sets[n.Name] = n.Labels
	}
	return sets
}

// volumesOf returns the volumes that tie pods to nodes, by "namespace/name" of their claim. One that was
// released keeps the name of a claim that is gone.
func volumesOf(volumes []*corev1.PersistentVolume) map[string]rollout.Volume {
	known := map[string]rollout.Volume{}
	for _, v := range volumes {
		volume := rollout.Volume{OneNode: isForOneNode(v.Spec.AccessModes)}
		if affinity := v.Spec.NodeAffinity; affinity != nil {
			volume.Nodes = affinity.Required
		}
		claim := v.Spec.ClaimRef
		if claim == nil || volume == (rollout.Volume{}) || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
			continue
		}
		key := claim.Namespace + "/" + claim.Name
		if _, taken := known[key]; !taken || v.Status.Phase == corev1.VolumeBound {
			known[key] = volume
		}
	}
	return known
}

// isForOneNode restates IsMultiAttachAllowed (pkg/volume/util of Kubernetes).
func isForOneNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}
