package judge

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review/pins"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// Wants returns which images of the release the nodes of each pool are to hold before the update. That is all but those of
// the nodes' system, which MCO's daemon does not take from where CRI-O keeps pinned images. An image that the release runs on the
// control plane is left out for pools of other nodes, if none of these runs the one of that name of today's release, which may be nil
// if it is not known. Operators decide where most images run; a release does not say it.
func Wants(r *readiness.Readiness, cluster rollout.Cluster, today *release.Payload) []pins.Want {
	var wants []pins.Want
	for _, pool := range cluster.Members().Pools {
		runs := runsIn(cluster, pool, today)
		for _, i := range r.Images {
			if i.OS || i.ControlPlane && runs != nil && !runs[i.Name] {
				continue
			}
			wants = append(wants, pins.Want{Pool: pool.Name, Image: i.Ref, By: i.Title(), Vital: true})
		}
	}
	return wants
}

// runsIn returns the names of images of today's release that nodes of a pool run; nil if that is not known, or if nodes of the control
// plane are or may be among them.
func runsIn(cluster rollout.Cluster, pool rollout.Pool, today *release.Payload) map[string]bool {
	if today == nil || pool.Name == "master" || len(pool.Nodes) == 0 || slices.Contains(cluster.Unknown, "pods") {
		return nil
	}
	members := map[string]bool{}
	for _, n := range pool.Nodes {
		members[n.Name] = true
	}
	if slices.ContainsFunc(cluster.Nodes, func(n *corev1.Node) bool { return members[n.Name] && isControlPlane(n) }) {
		return nil
	}
	names := namesByDigest(today)
	runs := map[string]bool{}
	for i := range cluster.Pods {
		if p := &cluster.Pods[i]; members[p.Node] {
			for _, c := range p.Spec.Containers {
				for _, name := range names[target.DigestOf(c.Image)] {
					runs[name] = true
				}
			}
		}
	}
	if len(runs) == 0 { // every node runs something of a release: its pods are not known
		return nil
	}
	return runs
}

// controlPlaneLabels are those of the nodes of the control plane.
var controlPlaneLabels = []string{"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"}

// isControlPlane reports whether a node is one of them.
func isControlPlane(n *corev1.Node) bool {
	return slices.ContainsFunc(controlPlaneLabels, func(label string) bool { _, has := n.Labels[label]; return has })
}
