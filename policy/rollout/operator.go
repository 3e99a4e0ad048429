package rollout

import (
	"cmp"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
)

// Busy returns, as clauses, what MCO is busy with or stuck at, apart from pools that are
// paused: a pool that is being updated or is degraded, by its conditions, and an operator that
// is not available. A pool without status says nothing.
func (c Cluster) Busy() []string {
	var busy []string
	if o := c.Operator; o != nil {
		for _, condition := range o.Status.Conditions {
			if condition.Type != configv1.OperatorAvailable || condition.Status == configv1.ConditionTrue {
				continue
			}
			is := "is not"
			if condition.Status != configv1.ConditionFalse {
				is = "may not be"
			}
			busy = append(busy, fmt.Sprintf("ClusterOperator %s %s available: %s", o.Name, is, cmp.Or(condition.Message, condition.Reason, "it does not say why")))
		}
	}
	for _, pool := range c.Pools {
		if why, ok := PoolCondition(pool, mcfgv1.MachineConfigPoolDegraded); ok {
			busy = append(busy, fmt.Sprintf("pool %s is degraded: %s", pool.Name, cmp.Or(why, "it does not say why")))
		}
		if _, ok := PoolCondition(pool, mcfgv1.MachineConfigPoolUpdating); ok && !pool.Spec.Paused {
			busy = append(busy, fmt.Sprintf("pool %s is being updated: %d of %d nodes are done", pool.Name, pool.Status.UpdatedMachineCount, pool.Status.MachineCount))
		}
	}
	return busy
}

// PoolCondition reports whether a condition of pool is true, and its message.
func PoolCondition(pool *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) (message string, ok bool) {
	i := slices.IndexFunc(pool.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return "", false
	}
	return cmp.Or(pool.Status.Conditions[i].Message, pool.Status.Conditions[i].Reason), true
}
