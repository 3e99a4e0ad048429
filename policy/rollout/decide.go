package rollout

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Files are files of one rendered config, by path. They need not be all: a path missing both before
// and after a change counts as unchanged. A path that only one of the two has is a file that comes
// or goes.
type Files map[string][]byte

// Conditions are the settings of a cluster that MCO's decision depends on, besides the files.
type Conditions struct {
	// Machines is MachineConfiguration cluster, nil if there is none: see PoliciesOf.
	Machines *operatorv1.MachineConfiguration
	// OverrideDrain says that ConfigMap image-registry-override-drain is in namespace
	// openshift-machine-config-operator. OpenShift 4.14 to 4.19 heed it; where the version is
	// newer it has to be left out.
	OverrideDrain bool
	// SingleNode says that controlPlaneTopology of Infrastructure cluster is SingleReplica.
	SingleNode bool
}

// Decision lists the actions of MCO on a node that goes from one rendered config to another.
type Decision struct {
	// Changed are the paths of the files that differ, sorted. Where there are none, there is
	// no new rendered config and nothing happens.
	Changed []string
	// Actions are those of Changed, in that order, which follow the writing of the files. A single
	// None says that no action is needed. They are shared with the policies they come from and must
	// not be changed.
	Actions []operatorv1.NodeDisruptionPolicyStatusAction
	// Drains is whether the node is drained first, and Reasons are why, as clauses, the one that decides first.
	Drains  bool
	Reasons []string
}

// Decide returns what MCO does on a node whose files go from before to after. The error is
// that a registries.conf cannot be read on which the drain depends; the daemon then gives
// up, and the node is degraded.
func Decide(before, after Files, c Conditions) (Decision, error) {
	d := Decision{Changed: changedPaths(before, after)}
	d.Actions, d.Reasons = actionsFor(d.Changed, PoliciesOf(c.Machines).Files)
	if len(d.Reasons) == 0 {
		// isDrainRequiredForNodeDisruptionActions in OpenShift 4.19 heeds the ConfigMap before it reads the files.
		if !has(d.Actions, operatorv1.SpecialStatusAction) || c.OverrideDrain {
			return d, nil
		}
		var err error
		if d.Reasons, err = DrainReasons(before[mirrors.RegistriesConfPath], after[mirrors.RegistriesConfPath]); err != nil {
			return d, err
		}
	}
	if c.SingleNode { // there is no other node that pods could go to (drainRequired, drain.go:27)
		d.Reasons = nil
	}
	d.Drains = len(d.Reasons) > 0
	return d, nil
}

// changedPaths restates CalculateConfigFileDiffs (pkg/controller/common/helpers.go) for
// files that have the same mode and owner.
func changedPaths(before, after Files) []string {
	changed := map[string]bool{}
	for file, was := range before {
		if is, ok := after[file]; !ok || !bytes.Equal(was, is) {
			changed[file] = true
		}
	}
	for file := range after {
		if _, ok := before[file]; !ok {
			changed[file] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// actionsFor restates calculatePostConfigChangeNodeDisruptionActionFromMCDiffs
// (update.go:655), and says which policies ask for a drain. MCO goes through the paths in no
// particular order; here they come sorted.
func actionsFor(changed []string, policies []operatorv1.NodeDisruptionPolicyStatusFile) ([]action, []string) {
	var actions []action
	var reboots, drains []string
	for _, file := range changed {
		policy := closestPolicy(file, policies)
		if policy == nil {
			reboots = append(reboots, fmt.Sprintf("no NodeDisruptionPolicy covers %s, which makes nodes reboot", file))
			continue
		}
		actions = append(actions, policy.Actions...)
		switch {
		case has(policy.Actions, operatorv1.RebootStatusAction):
			reboots = append(reboots, fmt.Sprintf("the NodeDisruptionPolicy for %s says Reboot", file))
		case has(policy.Actions, operatorv1.DrainStatusAction):
			drains = append(drains, fmt.Sprintf("the NodeDisruptionPolicy for %s says Drain", file))
		}
	}
	if len(reboots) > 0 {
		return []action{{Type: operatorv1.RebootStatusAction}}, reboots
	}
	return withoutNone(actions, len(changed)), drains
}

// withoutNone leaves None out where there is something to be done.
func withoutNone(actions []action, changed int) []action {
	if changed > 0 && !has(actions, operatorv1.NoneStatusAction) {
		return actions
	}
	if slices.ContainsFunc(actions, func(a action) bool { return slices.Contains(doing, a.Type) }) {
		return slices.DeleteFunc(actions, func(a action) bool { return a.Type == operatorv1.NoneStatusAction })
	}
	return []action{{Type: operatorv1.NoneStatusAction}}
}

// doing are the actions beside which None means nothing.
var doing = []operatorv1.NodeDisruptionPolicyStatusActionType{
	operatorv1.DrainStatusAction, operatorv1.ReloadStatusAction, operatorv1.RestartStatusAction,
	operatorv1.DaemonReloadStatusAction, operatorv1.SpecialStatusAction,
}

// closestPolicy restates FindClosestFilePolicyPathMatch (pkg/controller/common/helpers.go):
// the longest path of the file or of a folder above it, and the first of equals.
func closestPolicy(file string, policies []operatorv1.NodeDisruptionPolicyStatusFile) *operatorv1.NodeDisruptionPolicyStatusFile {
	var closest *operatorv1.NodeDisruptionPolicyStatusFile
	for i := range policies {
		at := policies[i].Path
		covers := at == file || strings.HasPrefix(path.Clean(file), path.Clean(at)+"/")
		if covers && at != "" && (closest == nil || len(at) > len(closest.Path)) {
			closest = &policies[i]
		}
	}
	return closest
}

func has(actions []action, kind operatorv1.NodeDisruptionPolicyStatusActionType) bool {
	return slices.ContainsFunc(actions, func(a action) bool { return a.Type == kind })
}
