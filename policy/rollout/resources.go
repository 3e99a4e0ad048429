package rollout

import "k8s.io/apimachinery/pkg/runtime/schema"

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
	return schema.GroupResource{Group: groups[resource], Resource: resource}.String()
}
