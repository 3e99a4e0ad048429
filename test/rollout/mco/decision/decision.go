// Package decision calls what the Machine Config Operator decides and keeps to itself:
// what a node does when its files change, and which files mirror objects come to. Nothing
// of it is restated here.
//
// The functions are private to MCO, hence go:linkname; empty.s is what lets the compiler
// accept a function without a body. Another pin may have renamed them, which the linker
// then says.
package decision

import (
	_ "unsafe" // for go:linkname

	ign3types "github.com/coreos/ignition/v2/config/v3_5/types"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/machine-config-operator/pkg/apihelpers"
	ctrlcommon "github.com/openshift/machine-config-operator/pkg/controller/common"
	_ "github.com/openshift/machine-config-operator/pkg/daemon" // has the linked functions
)

//go:linkname isDrainRequiredForNodeDisruptionActions github.com/openshift/machine-config-operator/pkg/daemon.isDrainRequiredForNodeDisruptionActions
func isDrainRequiredForNodeDisruptionActions(actions []opv1.NodeDisruptionPolicyStatusAction, before, after ign3types.Config) (bool, error)

//go:linkname calculatePostConfigChangeNodeDisruptionActionFromMCDiffs github.com/openshift/machine-config-operator/pkg/daemon.calculatePostConfigChangeNodeDisruptionActionFromMCDiffs
func calculatePostConfigChangeNodeDisruptionActionFromMCDiffs(ssh bool, files, units []string, policies opv1.NodeDisruptionPolicyClusterStatus) []opv1.NodeDisruptionPolicyStatusAction

// A Decision is what a node does with a new configuration.
type Decision struct {
	// Changed are the paths of the files that differ, in no order.
	Changed []string
	// Actions are those of the NodeDisruptionPolicy, in the order of Changed.
	Actions []opv1.NodeDisruptionPolicyStatusAction
	// Drain is set if the node is drained first, unless it is the cluster's only one.
	Drain bool
}

// Of decides what a node does whose configuration changes from before to after, where
// user is the spec of MachineConfiguration cluster.
func Of(before, after ign3types.Config, user opv1.NodeDisruptionPolicyConfig) (Decision, error) {
	d := Decision{Changed: ctrlcommon.CalculateConfigFileDiffs(&before, &after)}
	units := ctrlcommon.CalculateConfigUnitDiffs(&before, &after)
	d.Actions = calculatePostConfigChangeNodeDisruptionActionFromMCDiffs(false, d.Changed, units, apihelpers.MergeClusterPolicies(user))
	var err error
	d.Drain, err = isDrainRequiredForNodeDisruptionActions(d.Actions, before, after)
	return d, err
}

// OfRaw is Of for the Ignition configurations of two MachineConfigs.
func OfRaw(before, after []byte, user opv1.NodeDisruptionPolicyConfig) (Decision, error) {
	was, err := ctrlcommon.ParseAndConvertConfig(before)
	if err != nil {
		return Decision{}, err
	}
	is, err := ctrlcommon.ParseAndConvertConfig(after)
	if err != nil {
		return Decision{}, err
	}
	return Of(was, is, user)
}
