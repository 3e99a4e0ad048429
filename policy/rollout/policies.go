package rollout

import (
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// UserCABundlePath is the file with the CAs of ConfigMap user-ca-bundle and of the proxy's
// trustedCA (additional-trust-bundle.yaml in MCO's templates).
//
// The CAs that additionalTrustedCA of Image cluster names are in no rendered config: the
// daemon writes them to /etc/docker/certs.d by itself, on all nodes at once and without a
// rollout (syncControllerConfigHandler, certificate_writer.go:236).
const UserCABundlePath = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"

type action = operatorv1.NodeDisruptionPolicyStatusAction

// DefaultPolicies returns what MCO does unless told otherwise (defaultClusterPolicies in its
// pkg/apihelpers/apihelpers.go), for the files that images are pulled by and those beside them.
//
// There is no policy for drop-ins of registries.conf, so that a change of
// containerRuntimeSearchRegistries reboots nodes.
func DefaultPolicies() operatorv1.NodeDisruptionPolicyClusterStatus {
	none := action{Type: operatorv1.NoneStatusAction}
	reloadCRIO := action{Type: operatorv1.ReloadStatusAction, Reload: &operatorv1.ReloadService{ServiceName: crioService}}
	restart := func(service operatorv1.NodeDisruptionPolicyServiceName) action {
		return action{Type: operatorv1.RestartStatusAction, Restart: &operatorv1.RestartService{ServiceName: service}}
	}
	policy := func(path string, actions ...action) operatorv1.NodeDisruptionPolicyStatusFile {
		return operatorv1.NodeDisruptionPolicyStatusFile{Path: path, Actions: actions}
	}
	return operatorv1.NodeDisruptionPolicyClusterStatus{
		Files: []operatorv1.NodeDisruptionPolicyStatusFile{
			policy("/var/lib/kubelet/config.json", none), // the global pull secret
			policy("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", reloadCRIO),
			policy(policyfile.PolicyJSONPath, reloadCRIO),
			policy(mirrors.RegistriesConfPath, action{Type: operatorv1.SpecialStatusAction}),
			policy("/etc/containers/registries.d", reloadCRIO),
			policy("/etc/crio/policies", reloadCRIO),
			policy("/etc/nmstate/openshift", none),
			policy(UserCABundlePath, restart("coreos-update-ca-trust.service"), restart(crioService)),
		},
		SSHKey: operatorv1.NodeDisruptionPolicyStatusSSHKey{Actions: []action{none}},
	}
}

const crioService = "crio.service"

// PoliciesOf returns the policies in force by MachineConfiguration cluster: those of its
// status, or those that the operator is going to write there. Nil has the defaults.
func PoliciesOf(m *operatorv1.MachineConfiguration) operatorv1.NodeDisruptionPolicyClusterStatus {
	switch {
	case m == nil:
		return DefaultPolicies()
	case len(m.Status.NodeDisruptionPolicyStatus.ClusterPolicies.Files) > 0:
		return m.Status.NodeDisruptionPolicyStatus.ClusterPolicies
	default:
		return MergePolicies(m.Spec.NodeDisruptionPolicy)
	}
}

// MergePolicies returns the defaults with what spec puts in their place or beside them
// (MergeClusterPolicies in MCO's pkg/apihelpers/apihelpers.go). There are none for units,
// which no change of mirrors touches.
func MergePolicies(spec operatorv1.NodeDisruptionPolicyConfig) operatorv1.NodeDisruptionPolicyClusterStatus {
	merged := DefaultPolicies()
	defaults := len(merged.Files)
	for _, file := range spec.Files {
		policy := operatorv1.NodeDisruptionPolicyStatusFile{Path: file.Path, Actions: statusActions(file.Actions)}
		i := slices.IndexFunc(merged.Files[:defaults], func(f operatorv1.NodeDisruptionPolicyStatusFile) bool { return f.Path == file.Path })
		if i >= 0 {
			merged.Files[i] = policy
			continue
		}
		merged.Files = append(merged.Files, policy)
	}
	if len(spec.SSHKey.Actions) > 0 {
		merged.SSHKey.Actions = statusActions(spec.SSHKey.Actions)
	}
	return merged
}

// statusActions turns actions of a spec into those of a status, which have the same names.
func statusActions(actions []operatorv1.NodeDisruptionPolicySpecAction) []action {
	status := make([]action, len(actions))
	for i, a := range actions {
		status[i] = action{Type: operatorv1.NodeDisruptionPolicyStatusActionType(a.Type), Reload: a.Reload, Restart: a.Restart}
	}
	return status
}
