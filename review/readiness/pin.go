package readiness

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review/pins"
)

// Wants returns which images of the release the nodes of each pool are to hold before the update. That is all but those of
// the nodes' system, which MCO's daemon does not take from where CRI-O keeps pinned images, and those that the release runs on the
// control plane for pools of other nodes. Operators decide where most images run; a release does not say it.
func (r *Readiness) Wants(cluster rollout.Cluster) []pins.Want {
	var wants []pins.Want
	for _, pool := range cluster.Members().Pools {
		elsewhere := !mayHaveControlPlane(cluster, pool)
		for _, i := range r.Images {
			if !i.OS && (!i.ControlPlane || !elsewhere) {
				wants = append(wants, pins.Want{Pool: pool.Name, Image: i.Ref, By: i.Title(), Vital: true})
			}
		}
	}
	return wants
}

func mayHaveControlPlane(cluster rollout.Cluster, pool rollout.Pool) bool {
	return pool.Name == "master" || len(pool.Nodes) == 0 || slices.ContainsFunc(cluster.Nodes, func(n *corev1.Node) bool {
		return IsControlPlane(n) && slices.ContainsFunc(pool.Nodes, func(of rollout.Node) bool { return of.Name == n.Name })
	})
}

// ControlPlaneLabels are those of the nodes of the control plane.
var ControlPlaneLabels = []string{"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"}

// IsControlPlane reports whether a node is one of them.
func IsControlPlane(n *corev1.Node) bool {
	return slices.ContainsFunc(ControlPlaneLabels, func(label string) bool { _, has := n.Labels[label]; return has })
}
