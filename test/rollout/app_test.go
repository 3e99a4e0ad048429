package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// An app is a workload with its budget, in namespace app.
type app struct {
	name string
	// kind is Deployment if it is "", StatefulSet or DaemonSet.
	kind     string
	replicas int
	image    string
	// always says that each start asks the registry.
	always bool
	// apart keeps two of its pods off one node.
	apart bool
	// ports are those of the node that it takes, on the node's own network.
	ports []int
	// role is that of the nodes that it runs on, though they have a taint of that name; ""
	// for any node without taints.
	role string
	// budget is what its PodDisruptionBudget says ("minAvailable: 1"), "" for none.
	budget string
	// more are further lines of the pod's spec; cpus is what its container asks for.
	more []string
	cpus int
}

// manifest returns the objects of an app.
func (a app) manifest() string {
	kind, replicas := a.kind, fmt.Sprintf("\n  replicas: %d", a.replicas)
	switch kind {
	case "":
		kind = "Deployment"
	case "DaemonSet":
		replicas = ""
	}
	text := fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: app}
spec:%s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      automountServiceAccountToken: false%[4]s
      containers: [{name: app, image: %[5]q, imagePullPolicy: %[6]s%[7]s}]
`, kind, a.name, replicas, a.constraints(), a.image, a.pullPolicy(), a.containerNeeds())
	if a.budget != "" {
		text += fmt.Sprintf(`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %s, namespace: app}
spec: {%s, selector: {matchLabels: {app: %[1]s}}}
`, a.name, a.budget)
	}
	return text
}

func (a app) pullPolicy() string {
	if a.always {
		return "Always"
	}
	return "IfNotPresent"
}

// constraints are what the scheduler goes by.
func (a app) constraints() string {
	spec := slices.Clone(a.more)
	if len(a.ports) > 0 {
		spec = append(spec, "hostNetwork: true")
	}
	if a.role != "" {
		spec = append(spec, fmt.Sprintf("nodeSelector: {node-role.kubernetes.io/%s: \"\"}", a.role), fmt.Sprintf("tolerations: [{key: node-role.kubernetes.io/%s, operator: Exists}]", a.role))
	}
	if a.apart {
		spec = append(spec, fmt.Sprintf("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
			"[{labelSelector: {matchLabels: {app: %s}}, topologyKey: kubernetes.io/hostname}]}}", a.name))
	}
	const indent = "\n      "
	return strings.Join(append([]string{""}, spec...), indent)
}

// containerNeeds are the CPUs or the ports of its container.
func (a app) containerNeeds() string {
	if a.cpus > 0 {
		return fmt.Sprintf(", resources: {requests: {cpu: %d}}", a.cpus)
	}
	if len(a.ports) == 0 {
		return ""
	}
	var ports []string
	for _, port := range a.ports {
		ports = append(ports, fmt.Sprintf("{containerPort: %d, hostPort: %[1]d}", port))
	}
	return ", ports: [" + strings.Join(ports, ", ") + "]"
}
