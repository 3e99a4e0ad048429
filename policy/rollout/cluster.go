package rollout

import (
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Cluster holds the nodes, pods and settings that a rollout goes through. It is only read.
type Cluster struct {
	Pools []*mcfgv1.MachineConfigPool
	Nodes []*corev1.Node
	// Topology is controlPlaneTopology of Infrastructure cluster, "" if it is not known.
	Topology configv1.TopologyMode
	// OperatorNode is the node that MCO's own operator pod runs on, "" if it is not known.
	OperatorNode string
	// Machines is MachineConfiguration cluster, nil if there is none.
	Machines *operatorv1.MachineConfiguration
	// OverrideDrain is Conditions.OverrideDrain.
	OverrideDrain bool
	// Operator is ClusterOperator machine-config, nil if it is not known.
	Operator *configv1.ClusterOperator
	// Certificates are those that ControllerConfig machine-config-controller tells of.
	Certificates []mcfgv1.ControllerCertificate
	// Pods are those that have not ended, in no order.
	Pods []Pod
	// Controllers are those of pods, in no order: the StatefulSets that are known, and of others those
	// that could not make a pod, and Deployments that are owned.
	Controllers []Controller
	// Quotas are the ResourceQuotas of the cluster.
	Quotas []*corev1.ResourceQuota
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets []*policyv1.PodDisruptionBudget
	// Namespaces are the labels of the namespaces, by name; nil if they are not known.
	Namespaces map[string]labels.Set
	// Volumes are those of PersistentVolumeClaims ("namespace/name"); a missing one is not known to be tied to nodes.
	Volumes map[string]Volume
	// PinnedSets are the PinnedImageSets of the cluster; NodePins say which of them nodes hold.
	PinnedSets []*mcfgv1.PinnedImageSet
	NodePins   []NodePins
	// Unknown names what could not be read: "pods", "poddisruptionbudgets". Conclusions from it may
	// be wrong both ways.
	Unknown []string
}

// Volume is what ties pods to nodes.
type Volume struct {
	// Nodes can have it, nil for all. OneNode says that it is attached to one at a time (ReadWriteOnce).
	Nodes   *corev1.NodeSelector
	OneNode bool
}

// NodePins is what a MachineConfigNode says of PinnedImageSets.
type NodePins struct {
	Node, Pool string
	Sets       []mcfgv1.MachineConfigNodeStatusPinnedImageSet
	// Settled is when condition PinnedImageSetsProgressing last became false; the zero Time while it is
	// not false. Works says that condition PinnedImageSetsDegraded is false, Fails that it is true.
	Settled      time.Time
	Works, Fails bool
}

// Pool returns the MachineConfigPool of that name, nil if there is none.
func (c Cluster) Pool(name string) *mcfgv1.MachineConfigPool {
	i := slices.IndexFunc(c.Pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return c.Pools[i]
}

// IsSingleNode is Conditions.SingleNode for the cluster.
func (c Cluster) IsSingleNode() bool { return c.Topology == configv1.SingleReplicaTopologyMode }

// Conditions returns what MCO's decision depends on in the cluster.
func (c Cluster) Conditions() Conditions {
	return Conditions{Machines: c.Machines, OverrideDrain: c.OverrideDrain, SingleNode: c.IsSingleNode()}
}
