// Package scheduling says what becomes of a single pod in a rollout: which nodes it may go to while the others are where they are,
// whether it starts there, whether its budgets let it go, and whether it ends and another one is made instead.
//
//	cluster := scheduling.NewCluster(input)
//	at := cluster.NewPlacement(scheduling.Assumption{Images: cluster.Images})
//	if why := at.Obstructed(cluster.Pods[0].PodClass, 0); why != "" { // the pod must not be on a node
//		fmt.Println("node 0 is ruled out by", why)
//	}
//
// A Cluster is the state that does not change while a rollout is played; a Placement is on which nodes the pods are meanwhile,
// with the filters of kube-scheduler. An Assumption decides how unknowns count.
// The package plays no rollout and proves nothing: packages simulation and proof do, and rest on this one.
// It imports rollout, of policy, and nothing above that.
//
// # What is where
//
//   - What was read: input, cluster (nodes, pools, pods and their classes), read, budgets.
//   - The nodes that pods may go to: eligible by what never changes, constraints on other pods, staying for those of them that
//     stay, scheduler for where all are.
//   - Whether a pod starts: kubelet.
//   - Whether it ends, and another one is made: leaving, statefulset, forbidden.
package scheduling
