package rollout

import "k8s.io/apimachinery/pkg/runtime/schema"

// groups are those of the resources that a rollout depends on, "" for that of Kubernetes.
var groups = map[string]string{
	"machineconfigpools": mcoGroup, "machineconfignodes": mcoGroup, "controllerconfigs": mcoGroup, "poddisruptionbudgets": "policy",
	"statefulsets": "apps", "replicasets": "apps", "deployments": "apps", "machineconfigurations": "operator.openshift.io", "clusteroperators": configGroup, "infrastructures": configGroup, "clusterversions": configGroup,
}

const (
	mcoGroup    = "machineconfiguration.openshift.io"
	configGroup = "config.openshift.io"
)

// ControllerResources are the resources of the kinds of Cluster.Controllers.
var ControllerResources = map[string]string{
	"StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "ReplicationController": "replicationcontrollers", "Deployment": "deployments",
}

// QualifiedResource returns the name of a resource that Cluster.Unknown may hold, as a role
// names it: "poddisruptionbudgets.policy".
func QualifiedResource(resource string) string {
	return schema.GroupResource{Group: groups[resource], Resource: resource}.String()
}
