package cluster

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// Nodes returns the nodes of the cluster as objects.TrimNode leaves them, sorted by name.
// They are shared and must not be changed. The result is empty if they may not be read.
func (c *Inventory) Nodes() []*corev1.Node { return c.nodes.sorted(byName) }

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
