package rollout

import "errors"

// ErrGone says that a rendered config was asked for, and is not in the cluster.
var ErrGone = errors.New("it is not in the cluster")

// IsGone reports whether err says so, and not merely that the config could not be read.
func IsGone(err error) bool { return errors.Is(err, ErrGone) }

// groups are those of the resources that a rollout depends on, "" for that of Kubernetes.
var groups = map[string]string{
	"machineconfigpools": mcoGroup, "machineconfignodes": mcoGroup, "controllerconfigs": mcoGroup, "poddisruptionbudgets": "policy",
	"machineconfigurations": "operator.openshift.io", "clusteroperators": configGroup, "infrastructures": configGroup, "clusterversions": configGroup,
}

const (
	mcoGroup    = "machineconfiguration.openshift.io"
	configGroup = "config.openshift.io"
)

// QualifiedResource returns the name of a resource that Cluster.Unknown may hold, as a role
// names it: "poddisruptionbudgets.policy".
func QualifiedResource(resource string) string {
	if group := groups[resource]; group != "" {
		return resource + "." + group
	}
	return resource
}
