package objects

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlatformsOf returns the platforms of nodes, as Go names them ("linux/amd64"), sorted,
// each once. Nil if there are no nodes. A node that does not say its operating system
// runs Linux: kubelets have said it since Kubernetes 1.4, dumps may leave it out.
func PlatformsOf(nodes []*corev1.Node) []string {
	found := map[string]bool{}
	for _, n := range nodes {
		info := n.Status.NodeInfo
		if info.Architecture != "" {
			found[cmp.Or(info.OperatingSystem, "linux")+"/"+info.Architecture] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// mcoPrefix is that of the annotations by which the Machine Config Operator and
// its daemons talk to each other
// (openshift/machine-config-operator, pkg/daemon/constants/constants.go).
const mcoPrefix = "machineconfiguration.openshift.io/"

// TrimNode returns what is kept of a node: its labels, what the Machine Config
// Operator says of it, whether it takes pods, and what kind of machine it is.
func TrimNode(n *corev1.Node) *corev1.Node {
	t := &corev1.Node{ObjectMeta: names(n)}
	t.Labels = n.Labels
	for key, value := range n.Annotations {
		if strings.HasPrefix(key, mcoPrefix) {
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value)
		}
	}
	t.Spec.Unschedulable, t.Spec.Taints = n.Spec.Unschedulable, n.Spec.Taints
	t.Status.NodeInfo.Architecture = n.Status.NodeInfo.Architecture
	t.Status.NodeInfo.OperatingSystem = n.Status.NodeInfo.OperatingSystem
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			t.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason}}
		}
	}
	return t
}

// TrimPool returns what is kept of a MachineConfigPool: its labels, which nodes
// and configurations it selects, how it rolls out, and how far it has come.
func TrimPool(p *mcfgv1.MachineConfigPool) *mcfgv1.MachineConfigPool {
	t := &mcfgv1.MachineConfigPool{ObjectMeta: names(p), Spec: p.Spec, Status: p.Status}
	t.Labels = p.Labels
	t.Spec.Configuration.Source = nil
	t.Status.Configuration.Source = nil
	return t
}

// TrimDisruptionBudget returns what is kept of a PodDisruptionBudget: which pods
// it selects, and how much room it leaves.
func TrimDisruptionBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	t := &policyv1.PodDisruptionBudget{ObjectMeta: names(b), Spec: b.Spec, Status: b.Status}
	t.Status.DisruptedPods, t.Status.Conditions = nil, nil
	return t
}

func names(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
}
