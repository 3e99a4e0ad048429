package status

import (
	"errors"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Why a cluster has no status.
var (
	// ErrHosted is about a cluster whose control plane runs elsewhere.
	ErrHosted = errors.New("the control plane of this cluster is hosted elsewhere (HyperShift): its nodes follow a NodePool of the management cluster, and no MachineConfigPool")
	// ErrNoPools is about one that serves no MachineConfigPools, or has none.
	ErrNoPools = errors.New("this cluster has no MachineConfigPools: no Machine Config Operator updates its nodes, as on MicroShift and plain Kubernetes")
	// ErrPoolsUnknown is about one whose MachineConfigPools could not be read.
	ErrPoolsUnknown = errors.New("machineconfigpools could not be read, and so nothing is known of a rollout: it takes the rights of the ClusterRole cluster-reader, or a must-gather that has them (--from)")
)

// Applies returns why a cluster has no rollouts of MCO, or none that could be told of.
func Applies(c rollout.Cluster) error {
	switch {
	case c.Topology == configv1.ExternalTopologyMode:
		return ErrHosted
	case len(c.Pools) > 0:
		return nil
	case slices.Contains(c.Unknown, "machineconfigpools"):
		return ErrPoolsUnknown
	default:
		return ErrNoPools
	}
}
