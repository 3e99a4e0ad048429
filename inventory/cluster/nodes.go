package cluster

import (
	"cmp"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// Nodes returns the nodes of the cluster as objects.TrimNode leaves them, sorted by name.
// They are shared and must not be changed. The result is empty if they may not be read.
func (c *Inventory) Nodes() []*corev1.Node { return c.nodes.sorted(byName) }

// Pools returns the MachineConfigPools as objects.TrimPool leaves them, sorted by name.
// They are shared and must not be changed.
func (c *Inventory) Pools() []*mcfgv1.MachineConfigPool { return c.pools.sorted(byName) }

// DisruptionBudgets returns the PodDisruptionBudgets as objects.TrimDisruptionBudget
// leaves them, sorted by namespace and name. They are shared and must not be
// changed.
func (c *Inventory) DisruptionBudgets() []*policyv1.PodDisruptionBudget {
	return c.budgets.sorted(byName)
}

// EndingNamespaces is as in policy.Cluster.
func (c *Inventory) EndingNamespaces() map[string]bool {
	return objects.EndingNamespaces(c.namespaces.sorted(byName))
}

// byName compares objects by namespace and name.
func byName[T metav1.Object](a, b T) int {
	return cmp.Or(
		strings.Compare(a.GetNamespace(), b.GetNamespace()),
		strings.Compare(a.GetName(), b.GetName()),
	)
}
